"""The batch twin of a job: runs the same query in Spark SQL and compares the results."""
