"""The formats of sources: how the units of each format are found and read."""
