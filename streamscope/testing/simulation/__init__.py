"""Jobs over a query in one thread and virtual time, under faults that a seed decides."""
