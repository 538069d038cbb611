"""Hold-outs and searches for rankers."""
