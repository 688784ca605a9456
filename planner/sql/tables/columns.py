"""The columns in ``CREATE ... (name TYPE, ...)``: their types and constraints.

A column may be computed (``name AS expression``) or hold metadata of the connector (``name TYPE
METADATA``). ``WATERMARK FOR`` declares the time column, and how late rows may be.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.sql.reading.errors import sql_type
from planner.sql.reading.grammar import Metadata, Watermark, as_sql
from planner.sql.reading.literals import data_type, interval_us, type_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.sql.reading.parsing import SqlText

_MICROSECOND_DIGITS = 6
_KEY = exp.PrimaryKeyColumnConstraint
_NOT_NULL = exp.NotNullColumnConstraint
#: Constraints that may follow a type.
_BESIDE = (exp.CommentColumnConstraint, _KEY, _NOT_NULL)
_ZONED = (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
#: Formats in which the key of a message is plain text.
_KEYS_OF_TEXT = ("kafka", "delimited", "none")
_NO_KEY = (
    "the key of a message is read as one text: for keys such as 42 write {0} VARCHAR KEY and "
    "CAST({0} AS {1}) in the query, or leave KEY out if the message's value has {0}, too"
)
_KEY_FORMAT = (
    "the key of a message is read as one text: write KEY_FORMAT = 'KAFKA' if it is one, or leave "
    "KEY out if the message's value has {0}, too"
)
_KEYS = (
    "the key of a message is read as one text: leave KEY out except for one column, if the "
    "message's value has {0}, too"
)
_WATERMARK = "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, or AS ts"


@dataclass(frozen=True, slots=True)
class Columns:
    """The declared columns by name, in the order of the declaration."""

    names: tuple[str, ...] = ()
    #: Columns that the rows have, with their types.
    types: dict[str, pa.DataType] = field(default_factory=dict)
    #: The nodes of these columns, for the place in messages.
    nodes: dict[str, exp.Expr] = field(default_factory=dict)
    computed: dict[str, exp.Expr] = field(default_factory=dict)
    #: From a column to the connector's name of its metadata.
    metadata: dict[str, str] = field(default_factory=dict)
    watermark: Watermark | None = None
    #: How far rows may be out of order according to the watermark, us.
    delay_us: int = 0
    primary_key: tuple[str, ...] = ()
    #: Columns in which a null makes the row bad.
    not_null: tuple[str, ...] = ()
    #: The n of columns of type VARCHAR(n), if the dialect makes a longer text a bad row.
    lengths: dict[str, int] = field(default_factory=dict)

    @property
    def zoned(self) -> list[str]:
        """The columns that are declared as times WITH TIME ZONE."""
        kinds = {name: node.args.get("kind") for name, node in self.nodes.items()}
        made = [name for name, node in self.computed.items() if is_instant(node)]
        declared = [name for name, kind in kinds.items() if kind and kind.this in _ZONED]
        return [*declared, *made]


def is_instant(node: exp.Expr) -> bool:
    """Return whether a node is ``TO_TIMESTAMP_LTZ(number, digits)``, an instant in any zone."""
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() == "TO_TIMESTAMP_LTZ"
    digits = node.expressions[1] if is_call and len(node.expressions) == 2 else None
    return isinstance(digits, exp.Literal) and not digits.is_string


def columns_of(schema: exp.Expr, text: SqlText, base: Sequence[str] = ()) -> Columns:
    """Return the columns of a declaration; none if ``schema`` is a name alone.

    ``base``: the columns of the table after LIKE.

    Raises:
        SqlError: a part is not a column or a constraint.
    """
    if not isinstance(schema, exp.Schema):
        return Columns()
    names: list[str] = []
    types: dict[str, pa.DataType] = {}
    nodes: dict[str, exp.Expr] = {}
    computed: dict[str, exp.Expr] = {}
    metadata: dict[str, str] = {}
    watermark: Watermark | None = None
    keys: list[tuple[str, ...]] = []
    for part in schema.expressions:
        if isinstance(part, exp.Constraint) and len(part.expressions) == 1:
            (part,) = part.expressions  # CONSTRAINT name (...) has one part
        if isinstance(part, Watermark) and watermark is None:
            watermark = part
        elif isinstance(part, exp.PrimaryKey):
            keys.append(tuple(column.name for column in part.expressions))
        elif isinstance(part, exp.ColumnDef):
            if part.name in names:
                raise text.error(part, f"column {part.name!r} is declared twice")
            names.append(part.name)
            nodes[part.name] = part
            if _read_column(part, types, computed, metadata, text):
                keys.append((part.name,))
        else:
            raise text.error(part, "a column is a name and a type")
    delay_us = 0 if watermark is None else _delay_us(watermark, [*base, *names], text)
    if len(keys) > 1:
        raise text.error(
            schema, "a table has one PRIMARY KEY; for more than one column, write (a, b)"
        )
    key = keys[0] if keys else ()
    for name in key:
        if name not in (*base, *names):
            raise text.error(schema, f"PRIMARY KEY ({name}): there is no such column")
    required = tuple(name for name, node in nodes.items() if _is_required(node))
    lengths = _lengths(nodes, text)
    return Columns(
        *(tuple(names), types, nodes, computed, metadata, watermark, delay_us, key, required),
        lengths,
    )


def with_message_key(columns: Columns, format: str, text: SqlText) -> Columns:
    """Return the columns with ksqlDB's KEY and PRIMARY KEY, which are the key of the message.

    Raises:
        SqlError: the key is no plain text.
    """
    marked = [name for name, node in columns.nodes.items() if _is_message_key(node)]
    keys = [name for name in columns.types if name in (*marked, *columns.primary_key)]
    for name in keys:
        kind = columns.types[name]
        if len(keys) > 1:
            reason = _KEYS.format(" and ".join(keys))
        elif kind != pa.string():
            reason = _NO_KEY.format(name, sql_type(str(kind)))
        elif format not in _KEYS_OF_TEXT:
            reason = _KEY_FORMAT.format(name)
        else:
            continue
        raise text.error(columns.nodes[name], reason)
    return replace(columns, metadata={**columns.metadata, **dict.fromkeys(keys, "key")})


def _is_message_key(node: exp.Expr) -> bool:
    kinds = [constraint.args["kind"] for constraint in node.args.get("constraints") or []]
    return any(
        isinstance(k, exp.CommentColumnConstraint) and type(k.this) is exp.Var for k in kinds
    )


def columns_with(base: Columns, more: Columns) -> Columns:
    """Return the columns of a table after LIKE, followed by the table's own."""
    mark = base if more.watermark is None else more
    return Columns(
        (*base.names, *(name for name in more.names if name not in base.names)),
        {**base.types, **more.types},
        {**base.nodes, **more.nodes},
        {**base.computed, **more.computed},
        {**base.metadata, **more.metadata},
        mark.watermark,
        mark.delay_us,
        more.primary_key or base.primary_key,
        (*base.not_null, *(name for name in more.not_null if name not in base.not_null)),
        {**{k: n for k, n in base.lengths.items() if k not in more.names}, **more.lengths},
    )


def _read_column(
    column: exp.Expr,
    types: dict[str, pa.DataType],
    computed: dict[str, exp.Expr],
    metadata: dict[str, str],
    text: SqlText,
) -> bool:
    """Add a column to the columns of its kind; return whether it is the primary key."""
    kind, constraints = column.args.get("kind"), column.args.get("constraints") or []
    every = [constraint.args["kind"] for constraint in constraints]
    kinds = [c for c in every if type(c) not in _BESIDE]
    if kind is None and len(kinds) == 1 and type(kinds[0]) is exp.ComputedColumnConstraint:
        computed[column.name] = kinds[0].this
        if _is_required(column):
            reason = (
                "NOT NULL of a computed column is not checked: leave it out, and write "
                f"WHERE {column.name} IS NOT NULL in the query, or NOT NULL after the "
                "columns of the file that it is computed from"
            )
            raise text.error(column, reason)
    elif kind is not None and len(kinds) == 1 and type(kinds[0]) is Metadata:
        key = kinds[0].this
        metadata[column.name] = column.name if key is None else key.name
        types[column.name] = _declared_type(kind, column, text)
        if _is_required(column):
            reason = "metadata of the broker cannot be NOT NULL: leave it out"
            raise text.error(column, reason)
    elif kind is not None and not kinds:
        types[column.name] = _declared_type(kind, column, text)
    else:
        raise text.error(column, "a column is a name and a type")
    return any(type(c) is _KEY for c in every)


def _is_required(column: exp.Expr) -> bool:
    """Return whether the column is declared NOT NULL; NULL has no effect."""
    constraints = [c.args["kind"] for c in column.args.get("constraints") or []]
    return any(type(c) is _NOT_NULL and not c.args.get("allow_null") for c in constraints)


def _lengths(nodes: dict[str, exp.Expr], text: SqlText) -> dict[str, int]:
    """Return the n of columns of type VARCHAR(n), for a dialect that checks it."""
    if text.engine.varchar_column != "check":
        return {}
    kinds = {name: node.args.get("kind") for name, node in nodes.items()}
    lengths = {name: type_length(kind) for name, kind in kinds.items() if kind is not None}
    return {name: length for name, length in lengths.items() if length is not None}


def _declared_type(kind: exp.DataType, column: exp.Expr, text: SqlText) -> pa.DataType:
    """Return a type; TIMESTAMP(3) declares the precision in text, which reading ignores."""
    digits = [part.name for part in kind.expressions]
    is_time = str(getattr(kind.this, "value", kind.this)).startswith("TIMESTAMP")
    if is_time and len(digits) == 1 and digits[0].isdigit():
        if int(digits[0]) > _MICROSECOND_DIGITS:
            raise text.error(column, f"{as_sql(kind)}: times have microseconds here; TIMESTAMP(6)")
        kind = exp.DataType(this=kind.this)
    effect = text.engine.varchar_column
    for part in kind.find_all(exp.DataType):
        is_checked = part is kind and effect == "check" and part.this is exp.DataType.Type.VARCHAR
        if effect == "ignore" or is_checked or type_length(part) is None:
            continue
        reason = f"{as_sql(part)}: a length is not checked; write VARCHAR, or check it in WHERE"
        raise text.error(column, reason)
    return data_type(kind, column, text)


def _delay_us(watermark: Watermark, names: list[str], text: SqlText) -> int:
    column, value = watermark.name, watermark.expression
    if column not in names:
        raise text.error(watermark, f"WATERMARK FOR {column}: there is no such column")
    if isinstance(value, exp.Column) and value.name == column:
        return 0
    is_earlier = type(value) is exp.Sub and isinstance(value.this, exp.Column)
    if not is_earlier or value.this.name != column:
        raise text.error(watermark, _WATERMARK)
    us = interval_us(value.expression, text)
    if us < 0:
        raise text.error(watermark, _WATERMARK)
    return us
