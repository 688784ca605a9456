"""The logical node of a row pattern; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.durations import format_us
from planner.expressions.nodes import Node
from planner.logical.nodes.node import InputKeys, Step, same_partitioning
from planner.logical.nodes.row_steps import codes_of
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Set

    import pyarrow as pa

    from planner.logical.nodes.partitioning import Partitioning
    from rvertex.operators.ordered.matching.match import MatchRows
    from rvertex.user_code.code import UserCode


@dataclass(frozen=True, slots=True)
class Match(Step):
    """Rows of a key that match a row pattern; ``text`` is the pattern as written."""

    spec: MatchRows
    text: str
    label: str = ""
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.spec.output_schema([self.input.schema]))

    def operator(self) -> MatchRows:
        return self.spec

    stage_kind = "match"

    def describe(self) -> str:
        spec = self.spec
        by = f" by {', '.join(spec.keys)}" if spec.keys else ""
        within = "" if spec.within_us == INF_TIME else f" within {format_us(spec.within_us)}"
        rows = {"one": "", "all": ", all rows", "unmatched": ", all rows and unmatched ones"}
        made = ", ".join(measure.name for measure in spec.measures)
        return f"match ({self.text}){within}{by}{rows[spec.rows]}: {made}".removesuffix(": ")

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        spec = self.spec
        leaves = (*spec.condition_leaves, *spec.measure_leaves)
        read = {leaf.column for leaf in leaves if leaf.column is not None}
        return ((read - {VS, VE}) | {*spec.keys, *spec.kept},)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.spec.keys,)

    @property
    def partitioning(self) -> Partitioning:
        return same_partitioning(self, set(self.spec.keys) & set(self.spec.kept))

    is_point = True

    @property
    def codes(self) -> tuple[UserCode, ...]:
        tests = [one.test for one in self.spec.conditions if one is not None]
        values = [one.value for one in self.spec.measures]
        nodes = [node for node in (*tests, *values) if isinstance(node, Node)]
        return tuple(code for node in nodes for code in codes_of(node))
