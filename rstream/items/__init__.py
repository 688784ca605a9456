"""Batches of items: their columns, their dictionaries, their hashes and digests."""
