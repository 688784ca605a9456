"""Deliveries: send the rows of an output to a destination, exactly once, live or afterwards."""
