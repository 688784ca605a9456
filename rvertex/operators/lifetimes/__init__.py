"""Operators that change events' lifetimes."""
