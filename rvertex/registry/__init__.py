"""Decides which site delivers which id, if several sites (data centres) compute the same rows.

It is a replicated log of claims, and the state that follows from the log.
"""
