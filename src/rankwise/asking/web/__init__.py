"""The page that asks: a Starlette application around a session."""
