"""Queries: written in Python or SQL, checked at once, planned as a DAG of vertices."""

from __future__ import annotations

#: Not lazy: the package ``planner.sql`` would take the place of the function.
from planner.sql.entry import sql as sql
from rstream.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
