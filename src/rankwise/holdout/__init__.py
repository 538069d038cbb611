"""Predictions for rows that were held out, exactly and without refitting."""
