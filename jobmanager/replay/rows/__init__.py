"""Rows of the answer: which input makes them, and which of them another version changes."""
