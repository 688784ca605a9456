"""Rows of files one by one: where those of text end, and which of them are bad."""
