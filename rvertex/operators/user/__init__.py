"""Operators that call a user's code."""
