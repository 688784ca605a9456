"""Operators on edges: a row arrives at its start (start edge) and again at its end (end edge).

So no operator waits for the end of a row: a row whose end is unknown is emitted at its start. A row
whose end is known at its start may also arrive whole, as an interval.
"""
