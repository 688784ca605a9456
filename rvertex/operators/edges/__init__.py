"""Operators on edges: a row comes at its start (start edge) and again at its end (end edge).

So no operator waits for the end of a row: rows whose ends are unknown come, and leave, at once. A
row whose end is known at its start may also come whole, as an interval.
"""
