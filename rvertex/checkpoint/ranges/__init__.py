"""State by ranges of the hash of a key: restricted to a range, and side by side in one vertex."""
