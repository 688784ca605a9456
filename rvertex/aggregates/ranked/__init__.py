"""Aggregates of rows by rank: the first of an order, or a value of the first."""
