"""The PostgreSQL server of the test kit, where tests and benchmarks import it from."""

from streamscope.testing.servers.postgres import PACKAGE, PostgresServer, programs

__all__ = ["PACKAGE", "PostgresServer", "programs"]
