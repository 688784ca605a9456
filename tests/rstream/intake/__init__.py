"""Logs of pushed rows: one writer, producers that repeat, readers by position."""
