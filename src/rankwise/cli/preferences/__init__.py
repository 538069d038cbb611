"""rankwise preferences: from comparisons to a ranking and a model."""
