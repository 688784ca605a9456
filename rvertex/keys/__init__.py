"""Dense numbers for keys, on which grouping and joins are built."""
