"""The command `rankwise tune`."""
