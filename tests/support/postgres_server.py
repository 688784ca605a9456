"""Exports the test kit's PostgreSQL server for tests and benchmarks."""

from streamscope.testing.servers.postgres import PACKAGE, PostgresServer, programs

__all__ = ["PACKAGE", "PostgresServer", "programs"]
