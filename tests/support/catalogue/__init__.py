"""Features of Spark SQL and Flink SQL, in our SQL and DuckDB's, over the same random rows."""
