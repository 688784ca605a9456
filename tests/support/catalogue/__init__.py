"""What Spark SQL and Flink SQL have, in our SQL and in DuckDB's, over the same random rows."""
