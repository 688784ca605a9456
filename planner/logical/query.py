"""A query: a logical plan with a place for its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.logical.recover import RecoveryChoice, recovery_choice

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.logical.nodes import Sink


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A stream with a place for its answer: what ``jobmanager.run`` runs."""

    plan: Sink
    #: The grid of CTI times, us; None: the windows' common divisor, or 1 s without windows.
    cti_every_us: int | None = None
    #: How stages are recovered that do not say; None: each as its cost suggests.
    recovery: RecoveryChoice | None = None

    @property
    def schema(self) -> pa.Schema:
        """The payload columns of the answer."""
        return self.plan.schema

    def recover_with(self, strategy: str, *, replicas: int | None = None) -> Query:
        """The same query; stages that do not say otherwise are recovered so.

        See :meth:`Stream.recover_with`.
        """
        return replace(self, recovery=recovery_choice(strategy, replicas))

    def __repr__(self) -> str:
        return f"Query({column_list(self.schema)})"


def column_list(schema: pa.Schema) -> str:
    """Columns and their types, for people."""
    return ", ".join(f"{f.name}: {f.type}" for f in schema)
