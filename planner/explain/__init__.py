"""Prints plans as text, Mermaid and JSON."""
