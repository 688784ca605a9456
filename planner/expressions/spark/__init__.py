"""Pieces of Spark SQL text that functions are written with; pure, without pyspark."""
