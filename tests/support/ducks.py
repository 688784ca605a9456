"""Connections to DuckDB, which gives the results that many tests compare with."""

from __future__ import annotations

import functools

import duckdb


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def duck() -> duckdb.DuckDBPyConnection:
    """Return a connection with its own settings and registered tables.

    All are of one empty database, because opening one takes 20 ms of processor time. A test that
    creates a table or a view opens its own.
    """
    return _database().cursor()
