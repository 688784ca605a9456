"""The server that takes rows which others push."""
