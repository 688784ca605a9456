"""Scalar expressions, aggregates, windows, and the names they may use."""
