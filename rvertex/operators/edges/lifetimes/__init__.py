"""Operators on edges that change lifetimes."""
