"""Operators whose results depend on row order."""
