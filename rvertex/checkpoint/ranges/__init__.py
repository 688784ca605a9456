"""State by ranges of key hashes: restrict it to a range, or run several ranges in one vertex."""
