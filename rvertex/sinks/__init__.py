"""Sinks: destinations that keep the position of a delivery in the same atomic act as its rows."""
