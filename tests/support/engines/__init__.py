"""Worked cases in the manner of other engines' documentation, as data; a test runs them all."""
