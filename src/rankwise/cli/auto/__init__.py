"""The command `rankwise auto`."""
