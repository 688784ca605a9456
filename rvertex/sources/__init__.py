"""Where a job's rows come from: what to read, what it consists of, and readers from any row."""
