"""Aggregates by rank: the first rows of an order, or a value of the first row."""
