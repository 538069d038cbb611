"""The few array operations that everything above is written with."""
