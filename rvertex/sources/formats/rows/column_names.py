"""Check a file's column names: no name occurs twice, and no column of the plan is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from rvertex.errors import SourceSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def check_unique(path: str, names: Iterable[str]) -> None:
    """Raise for a file with two columns of one name, because a reader would lose one of them.

    Raises:
        SourceSchemaError: a name occurs more than once.
    """
    for name, times in Counter(names).items():
        if times > 1:
            raise SourceSchemaError(path, name, "the file has this column more than once")


def check_unique_fields(path: str, schema: pa.Schema) -> None:
    """Check the names of columns and of the fields of structs within them.

    Raises:
        SourceSchemaError: a name occurs more than once.
    """
    check_unique(path, schema.names)
    for field in schema:
        for names in _structs(field.type):
            check_unique(path, (f"{field.name}.{name}" for name in names))


def check_has(path: str, there: Sequence[str], wanted: Iterable[str]) -> None:
    """Check that a file has each column of the plan exactly once.

    Raises:
        SourceSchemaError: a column is missing or occurs more than once.
    """
    check_unique(path, there)
    known = set(there)
    for name in wanted:
        if name not in known:
            raise SourceSchemaError(path, name, f"not in the file, which has {', '.join(there)}")


def _structs(kind: pa.DataType) -> list[list[str]]:
    """Return the names of the fields of each struct within a type."""
    children = [kind.field(k) for k in range(kind.num_fields)]
    own = [[f.name for f in children]] if pa.types.is_struct(kind) else []
    return own + [names for child in children for names in _structs(child.type)]
