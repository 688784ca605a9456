"""Deliveries: rows of an output go to a destination, each once, while the job runs or after."""
