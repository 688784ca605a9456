"""Decides which site delivers which id: a replicated log of claims, and the state it implies."""
