"""Worked cases in the style of other engines' documentation, as data; a test runs all of them."""
