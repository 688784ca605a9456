"""Rows of answers and states: which input makes them, and how two versions differ."""
