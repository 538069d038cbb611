"""Claims about speed and memory, each compared with a named peer in the same run."""
