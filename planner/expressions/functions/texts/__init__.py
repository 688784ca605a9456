"""Functions of text: cut, pad, find, take apart, compare, and read as times."""
