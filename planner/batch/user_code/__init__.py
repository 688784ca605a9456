"""User code in the batch twin."""
