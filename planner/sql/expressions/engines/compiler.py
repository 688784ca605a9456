"""The interface of the expression compiler that calls of a dialect use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from sqlglot import exp

    from planner.api.expressions import Expr
    from planner.sql.reading.parsing import SqlText


class Compiler(Protocol):
    """Compiles expressions over the columns of a stream."""

    @property
    def text(self) -> SqlText: ...

    @property
    def schema(self) -> pa.Schema: ...

    def compile(self, node: exp.Expr) -> Expr:
        """Return the expression of a node."""

    def knowing(
        self, types: Mapping[str, pa.DataType], special: Callable[[exp.Expr], Expr | None]
    ) -> Compiler:
        """Return a compiler with more columns; ``special`` compiles a node first, if it can."""
