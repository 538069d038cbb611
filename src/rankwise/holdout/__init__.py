"""Exact predictions for held-out rows, without refitting."""
