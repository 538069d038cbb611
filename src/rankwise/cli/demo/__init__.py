"""The command `rankwise demo`."""
