"""The byte format of items: row groups, segments, tables, footers."""
