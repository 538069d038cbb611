"""Tables with names of columns: their formats, what each column is, and the rows in arrays."""
