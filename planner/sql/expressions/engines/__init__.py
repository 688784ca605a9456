"""Compiles calls as each SQL engine defines them: names, literals and types."""
