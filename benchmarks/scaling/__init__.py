"""Cost by the amount of data, keys, windows, vertices and state."""
