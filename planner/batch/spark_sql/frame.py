"""Events as a DataFrame, and what their columns are called in Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.batch.spark_sql.expressions import to_sql
from rstream.items.batch import VE, VS
from rstream.types import MIN_TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.expressions.nodes import Node

#: bigint; of events that start together, the one with the lesser place is first in the stream.
PLACE = "_place"


@dataclass(frozen=True, slots=True)
class Frame:
    """``_vs``, ``_ve``, and ``c0``, ``c1``, ... for ``schema``; ``_place`` where that is known."""

    df: Any
    schema: pa.Schema
    #: Mean length of a lifetime, as far as the sources tell. It says how joins cut time, no more.
    lifetime_us: int
    has_place: bool = False
    #: The last finite CTI that the stream would have; MIN_TIME if none.
    reached: int = MIN_TIME

    @property
    def columns(self) -> dict[str, str]:
        """The names of the columns and of the lifetime in Spark SQL."""
        named = {name: f"c{i}" for i, name in enumerate(self.schema.names)}
        return {VS: VS, VE: VE, **named}

    @property
    def order(self) -> tuple[str, ...]:
        """Columns that events come in the stream's order by, as far as it is known."""
        return (VS, PLACE) if self.has_place else (VS,)

    @property
    def place(self) -> list[str]:
        """The column of places, if there is one."""
        return [PLACE] if self.has_place else []

    def sql(self, node: Node) -> str:
        """An expression over the columns."""
        return to_sql(node, self.columns)
