"""The formats of sources: how the units of each are found and read, and what they share."""
