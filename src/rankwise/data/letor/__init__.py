"""Reading and writing LETOR files."""
