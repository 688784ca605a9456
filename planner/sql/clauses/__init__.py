"""SELECT, its clauses, and CREATE STREAM."""
