"""Test runs that need another process, or an input that grows."""
