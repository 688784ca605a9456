"""Operators for which it matters what comes first."""
