"""Events as a DataFrame, and the names of their columns in Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.batch.spark_sql.expressions import to_sql
from rstream.items.batch import VE, VS
from rstream.types import MIN_TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.expressions.nodes import Node

#: The column with the order of events that start together: a bigint, ascending.
PLACE = "_place"


@dataclass(frozen=True, slots=True)
class Frame:
    """Columns ``_vs``, ``_ve``, and ``c0``, ``c1``, ... for ``schema``; perhaps ``_place``."""

    df: Any
    schema: pa.Schema
    #: Estimated mean length of a lifetime, us. It decides only how joins cut time into slices.
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
        """The columns that sort events into the stream's order, as far as it is known."""
        return (VS, PLACE) if self.has_place else (VS,)

    @property
    def place(self) -> list[str]:
        """The column of places, if there is one."""
        return [PLACE] if self.has_place else []

    def sql(self, node: Node) -> str:
        """Return the SQL of an expression over the columns."""
        return to_sql(node, self.columns)
