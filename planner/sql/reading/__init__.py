"""From text to a checked tree, and what its literals mean."""
