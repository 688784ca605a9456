"""Functions of text: cut, pad, find, split, compare, encode, and parse."""
