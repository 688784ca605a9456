"""Temporal joins: inner, left, anti, with a condition, as-of, and by interval."""
