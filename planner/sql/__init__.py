"""Queries written in SQL, compiled to the fluent interface."""

from planner.sql.entry import sql
from planner.sql.reading.errors import SqlError

__all__ = ["SqlError", "sql"]
