"""The command `rankwise card`."""
