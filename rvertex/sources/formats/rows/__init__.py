"""Rows of files: where a row of text ends, which rows are bad, and values from folder names."""
