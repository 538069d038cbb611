"""LETOR (svmlight) files, read and written.

- parsing.py: the compiled loops over every byte.
- reading.py: checked blocks of text that threads parse, and what is made of them: `read_letor`, a
  whole file in memory; `LetorBlocks`, blocks of whole queries; spans of bytes for a cluster.
- writing.py: `write_letor`.
"""
