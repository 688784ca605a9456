"""Track the exchange's key columns through operators: their names in each output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.edges.of_begins import EdgeOfBegins
from rvertex.operators.ordered.matching.match import MatchRows
from rvertex.operators.project import Project
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.transform import UserOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.operators.protocol import OperatorSpec

#: For each port the names of the hashed columns.
Keys = tuple[tuple[str, ...], ...]


def keys_after(spec: OperatorSpec, keys: Keys, ports: Sequence[pa.Schema]) -> Keys | None:
    """Return the names of the key columns in an operator's output.

    None: the output lacks one, or the operator changes one.
    """
    match spec:
        case ForwardCtis(operator=inner):
            return keys_after(inner, keys, ports)
        case EdgeOfBegins():
            return _present(keys[0], spec.output_schema(ports))
        case Project(columns=columns):
            names = {source: name for name, source in columns if isinstance(source, str)}
            return _renamed(keys[0], names)
        case UserOperator() | Apply():
            return None
        case MatchRows() if not set(keys[0]) <= set(spec.kept):
            return None  # a measure may replace a key column of the same name
    output = getattr(spec, "output", None)
    if len(keys) == 1 or not isinstance(output, tuple):
        kept = getattr(spec, "keys", None)
        if kept is not None and not set(keys[0]) <= set(kept):
            return None
        return _present(keys[0], spec.output_schema(ports))
    if output and len(output[0]) == 2:
        return _renamed(keys[0], dict(output))
    for side, on in zip(("left", "right"), keys, strict=True):
        if (renamed := _renamed(on, {c: name for s, c, name in output if s == side})) is not None:
            return renamed
        if getattr(spec, "how", "inner") != "inner":
            return None  # columns of the right side may be null in the output
    return None


def _present(names: tuple[str, ...], schema: pa.Schema) -> Keys | None:
    return (names,) if set(names) <= set(schema.names) else None


def _renamed(names: tuple[str, ...], new_names: dict[str, str]) -> Keys | None:
    return (tuple(new_names[name] for name in names),) if set(names) <= new_names.keys() else None


def keys_of_chain(
    chain: Sequence[OperatorSpec], keys: Keys, ports: Sequence[pa.Schema]
) -> list[Keys | None]:
    """Return the key columns in the input of each operator, and in the output of the last one."""
    chain_keys: list[Keys | None] = [keys]
    for spec in chain:
        at = chain_keys[-1]
        chain_keys.append(None if at is None else keys_after(spec, at, ports))
        ports = [spec.output_schema(ports)]
    return chain_keys
