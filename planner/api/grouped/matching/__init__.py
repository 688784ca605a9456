"""Row patterns: their text, what their conditions read, and the plan of a match."""
