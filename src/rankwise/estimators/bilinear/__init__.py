"""The sparse bilinear ranker."""
