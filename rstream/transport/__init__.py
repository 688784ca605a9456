"""Transport: items and messages between processes."""
