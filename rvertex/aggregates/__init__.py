"""Aggregate functions: one accumulator each, and how partial results merge."""
