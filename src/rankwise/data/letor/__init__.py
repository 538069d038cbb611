"""LETOR (svmlight) files, read and written.

- reading.py: `read_letor`, a whole file in memory; `LetorBlocks`, blocks of whole queries; spans of
  bytes for a cluster. writing.py: `write_letor`.
- text_blocks.py: what these read, checked blocks of text that threads parse, and why a line cannot
  be read; parsing.py: the compiled loops.
"""
