"""Live queries from one topic of a broker into another, exactly once."""
