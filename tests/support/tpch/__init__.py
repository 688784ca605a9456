"""TPC-H: a small generator of its eight tables, and its 22 queries."""
