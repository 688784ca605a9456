"""Sinks: destinations that store the position of a delivery atomically with its rows."""
