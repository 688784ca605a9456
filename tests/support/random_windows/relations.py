"""The parts of a query: windows, columns, relations and FROM clauses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND = 1_000_000
BOUNDS = ("start", "end")


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one kind; lengths in seconds, 0 if they have no common length."""

    kind: str
    size: int = 0
    every: int = 0
    offset: int = 0

    def lifetime(self, start: str | None, end: str | None) -> tuple[str, str] | None:
        """The lifetime of a window's result, as DuckDB expressions over the available columns."""
        if self.kind == "CUMULATE":
            return None if end is None else (f"{end} - {self.every * SECOND}", end)
        if start is not None and end is not None:
            if self.size:  # each from another side, of which one may have no match
                start = f"coalesce({start}, {end} - {self.size * SECOND})"
                return start, f"{start} + {self.size * SECOND}"
            return start, end
        if not self.size:
            return None
        size = self.size * SECOND
        return (start, f"{start} + {size}") if start else (f"{end} - {size}", f"{end}")

    @property
    def overlap(self) -> bool:
        """Whether rows of two windows may be valid at the same time."""
        return self.kind not in ("TUMBLE", "CUMULATE")


MIXED = Windows("MIXED")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation."""

    name: str
    #: "key", "int", "start", "end", "time" (window_time), "at" (a time of a row). For "FIRST",
    #: "LAST" and "ARRAY", DuckDB returns all values with their times, in order of time.
    role: str
    windows: Windows | None = None
    #: In FROM: the alias of its relation.
    of: str = ""
    #: From a side of an outer join that may have no match.
    may_be_null: bool = False

    @property
    def shown(self) -> str:
        """Its name after FROM."""
        return f"{self.of}.{self.name}" if self.of else self.name


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation in FROM."""

    text: str
    #: The name of its CTE for DuckDB.
    duck: str
    columns: tuple[Column, ...]
    #: ``_s`` and ``_e`` are its lifetime; otherwise only the rows at the end of a window are right.
    exact: bool = True
    #: ``_s`` is the start of the rows at the end of a window.
    timed: bool = True
    #: No two rows of a window have the same start.
    alone: bool = False
    #: Rows are valid to the end of their window.
    whole: bool = True
    #: Its rows are input rows of windows, not results.
    rows: bool = False
    #: DuckDB's name for the same rows as points.
    points: str = ""

    def of_role(self, *roles: str) -> list[Column]:
        return [c for c in self.columns if c.role in roles]

    @property
    def windows(self) -> list[Windows]:
        return list(dict.fromkeys(c.windows for c in self.columns if c.windows is not None))


@dataclass(frozen=True, slots=True)
class Source(Relation):
    """A FROM clause with WHERE; ``text`` and ``duck`` start with FROM."""

    where: tuple[str, ...] = ()
    duck_where: tuple[str, ...] = ()
    #: function: tuple[str, str, str]|The only window function among its relations, if no other rows
    #: are in windows: a GROUP BY of its windows over the rows as points is equivalent. Its alias,
    #: and DuckDB's names for both.
    function: tuple[str, str, str] | None = None
    #: It has a RIGHT or FULL JOIN.
    is_outer: bool = False
    start: str = "_s"
    end: str = "_e"

    def tail(self, *, duck: bool, more: Sequence[str] = ()) -> str:
        """FROM and WHERE."""
        conditions = [*(self.duck_where if duck else self.where), *more]
        said = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return (self.duck if duck else self.text) + said


def source_of(relation: Relation, alias: str) -> Source:
    flags = (relation.exact, relation.timed, relation.alone, relation.whole, relation.rows)
    columns = tuple(replace(c, of=alias) for c in relation.columns)
    is_function = relation.points and relation.text.startswith("TABLE(")
    return Source(
        f"FROM {relation.text} AS {alias}",
        f"FROM {relation.duck} AS {alias}",
        columns,
        *flags,
        function=(alias, relation.duck, relation.points) if is_function else None,
        start=f"{alias}._s",
        end=f"{alias}._e",
    )


def coalesced(source: Source) -> list[tuple[Column, Column]]:
    """Return pairs of equal bounds if both sides have the same windows."""
    found = [
        (a, b)
        for a in source.of_role(*BOUNDS)
        for b in source.of_role(*BOUNDS)
        if (a.of, a.role, a.windows) == ("p", b.role, b.windows) and b.of == "q"
    ]
    return found[:1]
