"""A live job for hours, under load and faults, to detect growth."""
