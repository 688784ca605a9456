"""State that may be larger than memory: a budget per host, scratch files, sorted runs."""
