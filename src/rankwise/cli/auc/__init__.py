"""The command `rankwise auc`."""
