"""Copies parts of another table: ``LIKE t (INCLUDING GENERATED EXCLUDING OPTIONS)``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

    from planner.sql.tables.columns import Columns

#: Key in ``meta`` of the table behind LIKE: pairs such as ``("EXCLUDING", "OPTIONS")``.
CHOICES = "choices"
PARTS = (
    *("CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS"),
    "WATERMARKS",
)


def kept_of(table: exp.Expr) -> set[str]:
    """Return the parts that are taken: all, unless they or ALL are excluded."""
    kept = set(PARTS)
    choices: list[tuple[str, str]] = table.meta.get(CHOICES, [])
    for word, part in sorted(choices, key=lambda choice: choice[1] != "ALL"):
        parts = PARTS if part == "ALL" else (part,)
        kept = kept - set(parts) if word == "EXCLUDING" else kept | set(parts)
    return kept


def columns_kept(columns: Columns, kept: set[str]) -> Columns:
    """Return the columns of a table without the parts that are not taken."""
    left_out = set() if "GENERATED" in kept else set(columns.computed)
    left_out |= set() if "METADATA" in kept else set(columns.metadata)
    if "WATERMARKS" not in kept:
        columns = replace(columns, watermark=None, delay_us=0)
    if "CONSTRAINTS" not in kept:
        columns = replace(columns, primary_key=())
    if not left_out:
        return columns
    kept_names = [name for name in columns.names if name not in left_out]
    return replace(
        columns,
        names=tuple(kept_names),
        types={name: kind for name, kind in columns.types.items() if name not in left_out},
        nodes={name: columns.nodes[name] for name in kept_names},
        computed={k: v for k, v in columns.computed.items() if k not in left_out},
        metadata={k: v for k, v in columns.metadata.items() if k not in left_out},
    )
