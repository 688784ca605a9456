"""Compiles queries in SQL to the fluent interface."""
