"""Functions of rows that aggregates and row patterns are made of."""
