"""One file per format: how its units are found and read."""
