"""Gradient boosted trees."""
