"""Cost as data, keys, windows, vertices and state grow."""
