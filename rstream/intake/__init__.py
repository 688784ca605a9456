"""Logs of rows that others push: appended by one writer, read by position."""
