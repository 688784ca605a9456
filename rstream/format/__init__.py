"""Bytes at rest: how items look as files, and how files are named."""
