"""The state of an operator that consists of parts: their states, prefixed with the parts' names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


def joined_states(
    parts: Mapping[str, OperatorState], header: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> OperatorState:
    """Combine the states of the parts with the operator's own header and tables."""
    headers = {name: part.header for name, part in parts.items()}
    inner = {f"{p}.{n}": t for p, part in parts.items() for n, t in part.tables.items()}
    return OperatorState({**headers, **header}, {**inner, **tables})


def part_state(state: OperatorState, name: str) -> OperatorState:
    """Extract the state of the part ``name``."""
    tables = {
        full.removeprefix(f"{name}."): table
        for full, table in state.tables.items()
        if full.startswith(f"{name}.")
    }
    return OperatorState(state.header[name], tables)
