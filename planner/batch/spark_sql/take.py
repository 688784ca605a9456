"""One aggregate as Spark SQL: the column that is computed per group, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.expressions.spark.types import text

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.batch.spark_sql.frame import Frame
    from planner.logical.nodes import Aggregate


@dataclass(frozen=True, slots=True)
class Take:
    """An aggregate: the columns that are computed per group, and the result from them."""

    partial: dict[str, str]
    result: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """An aggregate over column ``source`` of the rows ``below``; ``index`` is its number."""

    source: str
    aggregate: Aggregate
    index: int
    below: Frame

    @property
    def function(self) -> str:
        return self.aggregate.function

    @property
    def name(self) -> str:
        """The name of the column that is computed per group."""
        return f"a{self.index}"

    @property
    def column(self) -> str:
        return self.below.columns[self.source]

    @property
    def kind(self) -> pa.DataType:
        return self.below.schema.field(self.source).type

    @property
    def joining(self) -> str:
        """A list of strings with the separator between them."""
        return f"array_join({{}}, {text(str(self.aggregate.argument))})"

    @property
    def shown(self) -> str:
        """The aggregate in error messages."""
        return f"{self.function}({self.source})"

    def take(self, partial: str, result: str = "{}") -> Take:
        """Make a Take: fill the column into ``partial``, and :attr:`name` into ``result``."""
        argument = self.aggregate.argument
        made = partial.format(self.column, argument=argument)
        return Take({self.name: made}, result.format(self.name, argument=argument))
