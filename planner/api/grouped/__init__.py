"""Aggregates by key and window, running results, and the first rows of an order."""
