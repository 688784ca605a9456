"""Which site delivers which id: a replicated log of claims, and what follows from it."""
