"""Decodes values of messages to rows, many at once, and finds the values that are bad."""
