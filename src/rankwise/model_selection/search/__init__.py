"""Parameter search by cross-validation over queries or pairs."""
