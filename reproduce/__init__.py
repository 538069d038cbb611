"""The papers' experiments, one folder each; ``python -m reproduce`` runs what can be run."""
