"""Leaderboards: ratings of named items from battles."""
