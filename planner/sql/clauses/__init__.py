"""Compiles SELECT and its clauses."""
