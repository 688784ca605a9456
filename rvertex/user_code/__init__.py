"""A user's code in a plan: how it is called, what it may ask, what its failures say."""
