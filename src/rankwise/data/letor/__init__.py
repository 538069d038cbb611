"""LETOR (svmlight) files, read and written.

- reading.py: `read_letor`, a whole file in memory; writing.py: `write_letor`.
- streaming.py: `LetorBlocks`, blocks of whole queries, and spans of bytes for a cluster.
- group_files.py: query ids from group sizes, in an array or in a file beside the data.
- text_blocks.py: what these read, checked blocks of text that threads parse; parsing.py: the
  compiled loops; faults.py: why a line cannot be read.
"""
