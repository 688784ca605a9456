"""Aggregates for each row or time, of what came before it: of all of it, or of so much."""
