"""Relations that can stand alone in FROM, and names for queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tests.support.random_windows.relations import SECOND, Column, Relation, Windows

if TYPE_CHECKING:
    from tests.support.random_windows.choices import Choices

#: Events: start, end, key, a unique number, a number that may be null.
POINTS = ("a", "b")
LASTING = "l"
COLUMNS: Final = ("k", "x", "v")
#: A table without times: key and number.
TABLE: Final = {"k": [1, 2], "w": [10, 20]}


@dataclass
class Naming:
    """Writes one query."""

    choose: Choices
    ctes: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    impossible: str = ""
    taken: int = 0
    #: Queries are named with views instead of WITH.
    by_views: bool = False
    main: Windows = field(default_factory=lambda: Windows("TUMBLE", 5, 5))

    def name(self, wanted: str) -> str:
        self.taken += 1
        return f"{wanted}{self.taken}"

    def cte(self, select: str) -> str:
        """DuckDB's name for a query."""
        name = self.name("r_")
        self.ctes.append(f"{name} AS ({select})")
        return name

    def windows(self) -> Windows:
        kind = self.choose.pick(("TUMBLE", "TUMBLE", "TUMBLE", "HOP"))
        size = self.choose.pick((5, 4, 3))
        if kind == "HOP":
            return Windows("HOP", size * 2, size)
        return Windows("TUMBLE", size, size, self.choose.pick((0, 0, 0, 1)))

    def base(self) -> Relation:
        """Rows of windows."""
        windows = self._other() if self.choose.chance(15) else self.main
        table = self.choose.pick((*POINTS, *POINTS, *POINTS, LASTING))
        found = self.rows_of(table, windows)
        if table in POINTS:
            return found
        # With a GROUP BY, the window would apply to pieces of such rows.
        return replace(found, text=f"(SELECT * FROM {found.text})", alone=False, points="")

    def _other(self) -> Windows:
        double = self.main.size * 2
        options = [Windows("TUMBLE", double, double), Windows("HOP", double, self.main.size)]
        return self.choose.pick([*options, self.windows()])

    def rows_of(self, table: str, windows: Windows) -> Relation:
        lengths = [windows.size] if windows.kind == "TUMBLE" else [windows.every, windows.size]
        lengths += [windows.offset] if windows.offset else []
        source = table
        if table != LASTING and self.choose.chance(15):
            source, most = self.name("q"), 5 + self.choose.below(15)
            query = f"SELECT * FROM {table} WHERE x < {most}"
            self.define(source, query)
            table = f"({query})"
        said = ", ".join(f"INTERVAL '{n}' SECOND" for n in lengths)
        text = f"TABLE({windows.kind}(TABLE {source}, DESCRIPTOR(vs()), {said}))"
        duck = self.cte(
            f"SELECT k, x, v, s AS window_start, s + {windows.size * SECOND} AS window_end, "
            f"s + {windows.size * SECOND} - 1000 AS window_time, greatest(t, s) AS _s, "
            f"s + {windows.size * SECOND} AS _e FROM {table}, "
            f"(SELECT (n * {windows.every} + {windows.offset}) * {SECOND} AS s "
            f"FROM (SELECT unnest(range(-20, 40)) AS n)) "
            f"WHERE s < e AND t < s + {windows.size * SECOND}"
        )
        columns = (
            *(Column(c, "key" if c == "k" else "int") for c in COLUMNS),
            Column("window_start", "start", windows),
            Column("window_end", "end", windows),
            Column("window_time", "time", windows),
        )
        points = self.cte(f"SELECT * REPLACE (_s + 1 AS _e) FROM {duck}")
        return Relation(text, duck, columns, alone=True, rows=True, points=points)

    def sessions(self) -> Relation:
        """Results of windows of several lengths."""
        table = self.choose.pick(POINTS)
        if self.choose.chance(50):
            gap = 1_200_000
            windows = Windows("SESSION")
            text = f"SESSION(TABLE {table} PARTITION BY k, DESCRIPTOR(vs()), INTERVAL '1.2' SECOND)"
            text = text.replace("INTERVAL '1.2' SECOND", "'1200 milliseconds'")
            before = f"lag(t) OVER (PARTITION BY k ORDER BY t) + {gap}"
            first = f"SELECT *, coalesce(t >= {before}, true)::INT AS f FROM {table}"
            number = "sum(f) OVER (PARTITION BY k ORDER BY t)"
            said = f"SELECT k, x, min(t) OVER w AS a, max(t) OVER w + {gap} AS e "
            said += f"FROM (SELECT *, {number} AS g FROM ({first})) WINDOW w AS (PARTITION BY k, g)"
            start = "a"
        else:
            windows = Windows("CUMULATE", 6, 3)
            text = f"CUMULATE(TABLE {table}, DESCRIPTOR(vs()), INTERVAL '3' SECOND, "
            text += "INTERVAL '6' SECOND)"
            six, three = 6 * SECOND, 3 * SECOND
            said = f"SELECT k, x, t // {six} * {six} AS a, t // {six} * {six} + n * {three} AS e "
            said += (
                f"FROM {table}, (VALUES (1), (2)) s(n) WHERE t < t // {six} * {six} + n * {three}"
            )
            start = f"e - {three}"
        columns = (
            Column("k", "key"),
            Column("window_start", "start", windows),
            Column("window_end", "end", windows),
            Column("c", "int"),
            Column("m", "int"),
        )
        duck = self.cte(
            f"SELECT k, a AS window_start, e AS window_end, count(*) AS c, max(x) AS m, "
            f"{start} AS _s, e AS _e FROM ({said}) GROUP BY k, a, e"
        )
        listed = "k, window_start, window_end"
        text = f"(SELECT {listed}, COUNT(*) AS c, MAX(x) AS m FROM TABLE({text}) GROUP BY {listed})"
        return Relation(text, duck, columns)

    def points(self) -> Relation:
        table = self.choose.pick(POINTS)
        duck = self.cte(f"SELECT k, x, v, t AS _s, t + 1 AS _e FROM {table}")
        columns = tuple(Column(c, "key" if c == "k" else "int") for c in COLUMNS)
        return Relation(table, duck, columns, whole=False)

    def always(self) -> Relation:
        duck = self.cte(f"SELECT k, w, -{10**15} AS _s, {10**15} AS _e FROM d")
        return Relation("d", duck, (Column("k", "key"), Column("w", "int")))

    def named(self, made: Relation) -> Relation:
        """Name it with WITH, a view, or an alias with column names; or leave it unchanged."""
        how = self.choose.pick(("", "", "", "", "named", "named", "names", "named names"))
        if not how or not made.text.startswith("("):
            return made
        name, listed = self.name("q"), ""
        if "names" in how:
            wanted = [self.called(c) for c in made.columns]
            listed = f" ({', '.join(wanted)})"
            pairs = zip(made.columns, wanted, strict=True)
            columns = tuple(replace(c, name=n) for c, n in pairs)
            renames = ", ".join(
                f"{c.name} AS {n}" for c, n in zip(made.columns, wanted, strict=True)
            )
            duck = self.cte(f"SELECT {renames}, _s, _e FROM {made.duck}")
            made = replace(made, columns=columns, duck=duck)
        if how.startswith("named"):
            self.define(f"{name}{listed}", made.text[1:-1])
        else:
            inner = self.name("w")
            return replace(made, text=f"(SELECT * FROM {made.text} AS {inner}{listed})")
        return replace(made, text=name, points="")

    def define(self, name: str, query: str) -> None:
        if self.by_views:
            self.views.append(f"CREATE VIEW {name} AS {query}")
        else:
            self.definitions.append(f"{name} AS ({query})")

    def called(self, column: Column) -> str:
        """Another name, or the same."""
        if self.choose.chance(40):
            return column.name
        return self.name({"start": "from_", "end": "until", "key": "k"}.get(column.role, "n"))
