"""Items as bytes: row groups, segments, tables, their footers."""
