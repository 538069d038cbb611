"""Hostile inputs by the million: each is read, and compared with a slow reference.

    python -m fuzz --seconds 60

Inputs are mutations of those in ``fuzz/corpus`` and ``tests/model_files``. One that is read
wrongly, or that ends in an error which is not meant for people, is written to ``fuzz/found``, and
the program ends with exit code 1. Every such input becomes a file of the corpus, which the tests
read, too.
"""
