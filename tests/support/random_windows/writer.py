"""SELECT: column lists, GROUP BY, first rows, DISTINCT, and set operations."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.random_windows.relations import (
    BOUNDS,
    MIXED,
    SECOND,
    Column,
    Relation,
    Source,
    Windows,
    coalesced,
)
from tests.support.random_windows.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Sequence


class Writer(Sources):
    """Writes queries."""

    def whole(self) -> Relation:
        """The complete query."""
        self.main = self.windows()
        self.by_views = self.choose.chance(50)
        source = self.source(self.choose.pick((0, 1, 1, 2, 2, 3)))
        kind = self.choose.pick(("group", "group", "group", "top", "rows"))
        if kind == "rows" and source.exact:
            return self.listed(source)
        return self.top(source) if kind == "top" else self.group(source, last=True)

    def relation(self, depth: int) -> Relation:
        """Return a query with windows."""
        if depth <= 0:
            return self.base()
        made = self.choose.pick((self._listed, self._listed, self._group, self._group, self._top,
                                 self._set, self._distinct, self._sessions))(depth)  # fmt: skip
        return self.named(made)

    def _sessions(self, _: int) -> Relation:
        return self.sessions()

    def _listed(self, depth: int) -> Relation:
        return self.listed(self.source(depth - 1))

    def _group(self, depth: int) -> Relation:
        return self.group(self.source(depth - 1), last=False)

    def _top(self, depth: int) -> Relation:
        return self.top(self.source(depth - 1))

    def _distinct(self, depth: int) -> Relation:
        return self.distinct(self.source(depth - 1))

    def listed(self, source: Source) -> Relation:
        """Some columns of a source under some names, including the bounds."""
        chosen = [
            c
            for c in source.columns
            if not self.choose.chance({"start": 12, "end": 12, "time": 85}.get(c.role, 30))
        ]
        if not any(c.role in BOUNDS for c in chosen):
            chosen.append(source.of_role(*BOUNDS)[0])
        if source.of_role("key") and not any(c.role == "key" for c in chosen):
            chosen.append(source.of_role("key")[0])
        columns, mine, theirs = self._names(chosen, source)
        if source.timed and self.choose.chance(10):
            columns.append(Column(self.name("at"), "at"))
            mine.append(f"vs() AS {columns[-1].name}")
            theirs.append(f"{source.start} AS {columns[-1].name}")
        for a, b in coalesced(source):
            if "FULL" in source.text or self.choose.chance(10):
                columns.append(Column(self.name(f"either_{a.role}"), a.role, a.windows))
                both = f"COALESCE({a.shown}, {b.shown}) AS {columns[-1].name}"
                mine.append(both)
                theirs.append(both)
        text = f"(SELECT {', '.join(mine)} {source.tail(duck=False)})"
        return self._made(text, theirs, source, columns)

    def _names(
        self, chosen: Sequence[Column], source: Source
    ) -> tuple[list[Column], list[str], list[str]]:
        """Columns and their expressions in both languages; names are unique."""
        columns: list[Column] = []
        said: list[str] = []
        for column in chosen:
            taken = {c.name for c in columns}
            name = column.name
            if name in taken or self.choose.chance(15):
                name = self.called(column)
            if name in taken:
                name = self.name("n")
            columns.append(replace(column, name=name, of=""))
            said.append(column.shown if name == column.name else f"{column.shown} AS {name}")
        return columns, said, list(said)

    def _made(
        self, text: str, theirs: Sequence[str], source: Source, columns: Sequence[Column]
    ) -> Relation:
        duck = self.cte(
            f"SELECT {', '.join(theirs)}, {source.start} AS _s, {source.end} AS _e "
            f"{source.tail(duck=True)}"
        )
        flags = (source.exact, source.timed, source.alone, source.whole, source.rows)
        return Relation(text, duck, tuple(columns), *flags)

    def bounds(self, source: Source) -> tuple[list[tuple[str, Column]], tuple[str, str] | None]:
        """Return the bounds for a GROUP BY, as written in SQL, and the lifetime of the groups."""
        whole = [w for c in source.columns if (w := c.windows) is not None and not c.may_be_null]
        listed = {c.windows for role in ("start", "end") for c in source.of_role(role)}
        every = [w for w in source.windows if w in listed]
        known = list(dict.fromkeys(w for w in whole if w in listed)) or every
        windows = self.choose.pick(known if not self.choose.chance(15) else every)
        starts = [c for c in source.of_role("start") if c.windows == windows]
        ends = [c for c in source.of_role("end") if c.windows == windows]
        options = [[s, e] for s in starts for e in ends if s.of == e.of]
        if not windows.overlap:
            options += [[s, e] for s in starts for e in ends if s.of != e.of]
        options = [*options[:1], *options[:1], *([c] for c in (*starts, *ends)), *options[1:]]
        # one bound does not identify such a window
        if not windows.size or windows.kind == "CUMULATE":
            options = options[: 2 if self.choose.chance(80) else None]
        safe = [option for option in options if not all(c.may_be_null for c in option)]
        chosen = self.choose.pick(safe if safe and not self.choose.chance(15) else options)
        said = [(c.shown, c) for c in chosen]
        for a, b in coalesced(source):
            if "FULL" in source.text and self.choose.chance(80):
                said = [(f"COALESCE({a.shown}, {b.shown})", a)]
                windows = a.windows or windows
        found = {c.role: text for text, c in said}
        times = [c for c in source.of_role("time") if (c.of, c.windows) == (chosen[0].of, windows)]
        if times and len(said) == 2 and self.choose.chance(25):
            said.append((times[0].shown, times[0]))
        return said, windows.lifetime(found.get("start"), found.get("end"))

    def group(self, source: Source, *, last: bool) -> Relation:
        """GROUP BY bounds and keys."""
        free = not {"window_start", "window_end"} & {c.name for c in source.columns}
        within = set(source.windows) == {self.main} and self.main.kind == "TUMBLE"
        within = within and not self.main.offset
        if source.exact and free and within and self.choose.chance(30):
            return self._grouped_again(source)
        said, lifetime = self.bounds(source)
        if source.function and any(column.of == source.function[0] for _, column in said):
            source = _as_points(source, *source.function)
        if lifetime is None:
            self.impossible = "a bound alone does not tell the window"
            lifetime = ("0", "0")
        keys = [c for c in source.of_role("key") if self.choose.chance(60)][:1]
        if not keys and source.of_role("int") and self.choose.chance(10):
            keys = [self.choose.pick(source.of_role("int"))]
        by = [text for text, _ in said] + [c.shown for c in keys]
        columns: list[Column] = []
        mine: list[str] = []
        for text, column in said:
            taken = {c.name for c in columns}
            name = self.called(column) if self.choose.chance(25) else column.name
            name = self.name("n") if name in taken else name
            columns.append(replace(column, name=name, of=""))
            mine.append(text if text in (name, f"{column.of}.{name}") else f"{text} AS {name}")
        for column in keys:
            columns.append(replace(column, of="", role="key"))
            mine.append(column.shown)
        shown = self._keys(by, columns)
        if keys and self.choose.chance(10):  # and one result for all keys
            shown = by = [*by[:-1], f"ROLLUP ({by[-1]})"]
            columns[-1] = replace(columns[-1], may_be_null=True)
        theirs = list(mine)
        self._aggregates(source, columns, mine, theirs, last=last)
        having = " HAVING COUNT(*) > 1" if self.choose.chance(15) else ""
        text = f"(SELECT {', '.join(mine)} {source.tail(duck=False)} GROUP BY {', '.join(shown)}"
        inner = f"{source.tail(duck=True)} GROUP BY {', '.join(by)}{having}"
        duck = self.cte(
            f"SELECT {', '.join(theirs)}, {lifetime[0]} AS _s, {lifetime[1]} AS _e {inner}"
        )
        return Relation(f"{text}{having})", duck, tuple(columns))

    def _keys(self, by: list[str], columns: list[Column]) -> list[str]:
        """The keys of GROUP BY in this or reverse order, by position or by name."""
        how = self.choose.pick(("", "", "", "back", "place", "name"))
        if how == "place":
            return [str(at + 1) for at in range(len(by))]
        if how == "name":
            return [
                c.name if "COALESCE" in text else text for text, c in zip(by, columns, strict=True)
            ]
        return by[::-1] if how == "back" else by

    def _grouped_again(self, source: Source) -> Relation:
        """GROUP BY a window over other windows: rows are in the windows that they overlap."""
        size = self.main.size * 2
        windows = Windows("TUMBLE", size, size)
        keys = source.of_role("key")[:1]
        columns = [replace(c, of="") for c in keys]
        columns += [Column("window_start", "start", windows), Column("window_end", "end", windows)]
        by = [c.shown for c in keys]
        start = f"n * {size * SECOND}"
        end = f"{start} + {size * SECOND}"
        mine = [*by, "window_start", "window_end"]
        theirs = [*by, f"{start} AS window_start", f"{end} AS window_end"]
        self._aggregates(replace(source, timed=False), columns, mine, theirs, last=False)
        text = f"(SELECT {', '.join(mine)} {source.tail(duck=False)} "
        grouped = ", ".join([*by, f"TUMBLE('{size} seconds')"])
        text += f"GROUP BY {grouped})"
        tail = source.tail(duck=True, more=[f"{end} > {source.start}", f"{start} < {source.end}"])
        tail = tail.replace(" WHERE ", ", (SELECT unnest(range(-20, 40)) AS n) WHERE ", 1)
        lives = f"{start} AS _s, {end} AS _e"
        duck = f"SELECT {', '.join(theirs)}, {lives} {tail} GROUP BY {', '.join([*by, 'n'])}"
        return Relation(text, self.cte(duck), tuple(columns))

    def _aggregates(
        self,
        source: Source,
        columns: list[Column],
        mine: list[str],
        theirs: list[str],
        *,
        last: bool,
    ) -> None:
        numbers = source.of_role("int") or source.of_role("key")
        times = source.of_role("at")
        for _ in range(1 + self.choose.below(3)):
            x = self.choose.pick(numbers).shown if numbers else "1"
            kinds = ["COUNT(*)", "SUM({})", "MAX({})", "MIN({})", "COUNT({})", "COUNT(DISTINCT {})"]
            if source.timed:
                kinds += ["MAX(vs())", "MIN(vs())"]
            if source.timed and (last or source.alone):
                kinds += ["FIRST({})", "LAST({})"]
            if source.timed and last:
                kinds += ["ARRAY_AGG({})", "ARRAY_AGG({})"]
            if times:
                kinds.append("MAX({at})")
            kind = self.choose.pick(kinds)
            name = self.name("n")
            text = kind.format(x, at=times[0].shown if times else "")
            role, duck = "int", text
            at = source.start
            if "(vs())" in kind:
                role, duck = "at", f"{kind[:3]}({at})"
            elif kind == "MAX({at})":
                role = "at"
            elif kind.startswith(("FIRST", "LAST", "ARRAY")):
                role = kind.split("(")[0].split("_")[0] if last else "int"
                duck = f"list({{'t': {at}, 'x': {x}}} ORDER BY {at})"
                if not last:
                    duck += f"[{1 if kind.startswith('F') else -1}].x"
            columns.append(Column(name, role))
            mine.append(f"{text} AS {name}")
            theirs.append(f"{duck} AS {name}")

    def top(self, source: Source) -> Relation:
        """The first rows of each window."""
        said, lifetime = self.bounds(source)
        if lifetime is None or any("COALESCE" in text for text, _ in said):
            return self.group(source, last=False)
        keys = [c for c in source.of_role("key") if self.choose.chance(30)][:1]
        numbers = source.of_role("int", "key")
        if not numbers:
            return self.group(source, last=False)
        rank = "RANK"
        by = [self.choose.pick(numbers)]
        direction = self.choose.pick(("", " DESC"))
        orders = [f"{c.shown}{direction}" for c in by]
        ours, duck = ", ".join(orders), ", ".join(orders)
        if source.timed and self.choose.chance(30):
            ours, duck = f"vs(){direction}", f"{source.start}{direction}"
            rank = "ROW_NUMBER" if source.alone else "RANK"
        partition = ", ".join([*(text for text, _ in said), *(c.shown for c in keys)])
        chosen = [c for _, c in said]
        rest = [c for c in source.columns if c.role in ("key", "int", *BOUNDS)]
        chosen += [c for c in rest if c not in chosen and not self.choose.chance(40)]
        columns, mine, theirs = self._names(chosen, source)
        number, most = self.name("n"), 1 + self.choose.below(3)
        over = f"{rank}() OVER (PARTITION BY {partition} ORDER BY {{}}) AS {number}"
        tail = source.tail(duck=False)
        if self.choose.chance(50):
            listed = ", ".join([*mine, over.format(ours)])
            text = f"(SELECT {listed} {tail} QUALIFY {number} <= {most})"
        else:
            inner = f"SELECT {', '.join([*mine, over.format(ours)])} {tail}"
            listed = ", ".join(c.name for c in columns)
            text = f"(SELECT {listed}, {number} FROM ({inner}) WHERE {number} <= {most})"
        columns.append(Column(number, "int"))
        lives = f"{lifetime[0]} AS _s, {lifetime[1]} AS _e"
        tail = source.tail(duck=True)
        found = f"SELECT {', '.join([*theirs, over.format(duck), lives])} {tail}"
        made = self.cte(f"SELECT * FROM ({found}) WHERE {number} <= {most}")
        return Relation(text, made, tuple(columns))

    def distinct(self, source: Source) -> Relation:
        """SELECT DISTINCT of bounds and one or two columns."""
        chosen = self._few(source)
        columns, mine, _ = self._names(chosen, source)
        text = f"(SELECT DISTINCT {', '.join(mine)} {source.tail(duck=False)})"
        return self._once(text, columns, mine, source)

    def _few(self, source: Source) -> list[Column]:
        chosen = [c for c in source.columns if c.role in BOUNDS]
        if any(w.kind in ("TUMBLE", "HOP") for w in source.windows) and self.choose.chance(30):
            chosen = [self.choose.pick(chosen)]
        others = [c for c in source.columns if c.role in ("key", "int")]
        return [*chosen, *(c for c in others if self.choose.chance(35))]

    def _once(self, text: str, columns: list[Column], said: list[str], source: Source) -> Relation:
        names = [f"{s.split(' AS ')[0]}" for s in said]
        duck = self.cte(
            f"SELECT {', '.join(said)}, min({source.start}) AS _s, max({source.end}) AS _e "
            f"{source.tail(duck=True)} GROUP BY {', '.join(names)}"
        )
        exact = source.exact and source.whole
        timed = source.timed and source.exact
        flags = (exact, timed, False, source.whole, source.rows)
        return Relation(text, duck, tuple(columns), *flags)

    def _set(self, depth: int) -> Relation:
        """UNION ALL, UNION, EXCEPT or INTERSECT of the same columns of two relations."""
        kind = self.choose.pick(("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
        left, right = self.relation(depth - 1), self.relation(depth - 1)
        roles = [r for r in ("key", "start", "end", "int")
                 if left.of_role(r) and right.of_role(r)]  # fmt: skip
        if not {"start", "end"} & set(roles):
            return left
        if "int" in roles and self.choose.chance(50):
            roles.remove("int")
        sides = [[rel.of_role(r)[0] for r in roles] for rel in (left, right)]
        texts = [
            f"SELECT {', '.join(c.name for c in side)} FROM {rel.text}"
            for side, rel in zip(sides, (left, right), strict=True)
        ]
        names = [c.name for c in sides[0]]
        others = [f"{c.name} AS {n}" for c, n in zip(sides[1], names, strict=True)]
        if kind == "UNION ALL":
            parts = f"SELECT {', '.join(names)}, _s, _e FROM {left.duck} UNION ALL "
            duck = self.cte(f"{parts} SELECT {', '.join(others)}, _s, _e FROM {right.duck}")
        else:
            duck = self._set_once(kind, names, others, left, right)
        specs = {c.windows for side in sides for c in side if c.windows is not None}
        same = len(specs) == 1 and MIXED not in specs
        columns = tuple(sides[0])
        if not same and kind != "EXCEPT":
            columns = tuple(
                a if a.windows == b.windows else replace(a, windows=MIXED)
                for a, b in zip(*sides, strict=True)
            )
        exact = left.exact and right.exact and (
            kind == "UNION ALL"
            or (kind != "EXCEPT" and same and left.whole and right.whole)
        )  # fmt: skip
        text = f"({texts[0]} {kind} {texts[1]})"
        settled = left.exact and right.exact
        timed = left.timed and right.timed and (settled or kind == "UNION ALL")
        timed = timed and (same or "UNION" in kind)
        # a row is valid for its window, regardless of the starts of its sides
        if kind == "INTERSECT":
            exact = timed = False
        flags = (exact, timed, False, left.whole and right.whole, left.rows or right.rows)
        return Relation(text, duck, columns, *flags)

    def _set_once(
        self, kind: str, names: list[str], others: list[str], left: Relation, right: Relation
    ) -> str:
        listed = ", ".join(names)
        lived = "min(_s) AS _s, max(_e) AS _e"
        mine = self.cte(f"SELECT {listed}, {lived} FROM {left.duck} GROUP BY ALL")
        yours = self.cte(
            f"SELECT {listed}, {lived} FROM "
            f"(SELECT {', '.join(others)}, _s, _e FROM {right.duck}) GROUP BY ALL"
        )
        if kind == "UNION":
            both = f"SELECT * FROM {mine} UNION ALL SELECT * FROM {yours}"
            return self.cte(f"SELECT {listed}, {lived} FROM ({both}) GROUP BY ALL")
        same = " AND ".join(f"l.{n} IS NOT DISTINCT FROM r.{n}" for n in names)
        same += " AND greatest(l._s, r._s) < least(l._e, r._e)"
        told = ", ".join(f"l.{n}" for n in names)
        if kind == "EXCEPT":
            there = f"EXISTS (SELECT * FROM {yours} r WHERE {same})"
            return self.cte(f"SELECT {told}, l._s, l._e FROM {mine} l WHERE NOT {there}")
        lives = "greatest(l._s, r._s) AS _s, least(l._e, r._e) AS _e"
        return self.cte(f"SELECT {told}, {lives} FROM {mine} l JOIN {yours} r ON {same}")


def _as_points(source: Source, alias: str, rows: str, points: str) -> Source:
    """The source with window rows as points, if no condition uses the windows."""
    said = source.tail(duck=False)
    if f"{alias}.window_" in said or re.search(r"USING \([^)]*window_", said):
        return source
    duck = source.duck.replace(f"{rows} AS {alias}", f"{points} AS {alias}", 1)
    return replace(source, duck=duck)
