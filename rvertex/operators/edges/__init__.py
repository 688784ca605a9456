"""Operators that emit a row when it begins to live and again when it ends, and wait for neither."""
