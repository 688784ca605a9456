"""Aggregate functions: accumulators and how partial results merge; ``registry`` has the names."""
