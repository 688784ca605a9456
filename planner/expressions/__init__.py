"""Expressions: typed trees over columns, and how they are evaluated."""
