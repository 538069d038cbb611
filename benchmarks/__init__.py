"""Claims of speed and memory, each beside a named peer in the same run."""
