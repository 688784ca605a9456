"""The server that accepts pushed rows."""
