"""Ways to run a query that need more than a schedule."""
