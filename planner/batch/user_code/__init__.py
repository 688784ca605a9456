"""A user's code in the batch twin."""
