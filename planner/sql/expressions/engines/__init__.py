"""Prepares calls in SQL: names, literals, and differences between engines."""
