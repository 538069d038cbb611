"""Ratings of items from battles: outcome models, penalized Newton, clustered covariance."""
