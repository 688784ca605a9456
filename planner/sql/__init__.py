"""Queries written in SQL, compiled to the fluent interface."""
