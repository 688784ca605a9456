"""Operators and statements of single engines."""
