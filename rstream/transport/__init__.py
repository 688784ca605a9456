"""How items and messages travel between processes."""
