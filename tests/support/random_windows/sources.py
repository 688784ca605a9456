"""FROM and WHERE: joins, conditions, EXISTS and IN."""

from __future__ import annotations

from dataclasses import replace

from tests.support.random_windows.naming import Naming
from tests.support.random_windows.relations import SECOND, Relation, Source, source_of


class Sources(Naming):
    """Writes FROM clauses; their contents are written by :class:`Writer`."""

    def relation(self, depth: int) -> Relation:
        """Return a relation with windows."""
        raise NotImplementedError

    def group(self, source: Source, *, last: bool) -> Relation:
        """GROUP BY over a source."""
        raise NotImplementedError

    def source(self, depth: int) -> Source:
        left = self.relation(depth)
        found = source_of(left, "p")
        kind = self.choose.pick(("", "", "", "join", "join", "join", "three"))
        if kind:
            found = self.join(found, self.other(left, depth), "q")
        if kind == "three":
            found = self.join(found, self.other(left, depth), "o")
        for _ in range(self.choose.pick((0, 0, 1))):
            found = self.filtered(found)
        if self.choose.chance(15):
            found = self.exists(found, self.other(left, depth))
        return found

    def other(self, left: Relation, depth: int) -> Relation:
        """The other side of a join; maybe the same relation, as in queries like Nexmark's q5."""
        options = ("base", "base", "base", "base", "deep", "deep", "deep", "same", "same",
                   "grouped", "grouped", "points", "always", "always")  # fmt: skip
        what = self.choose.pick(options)
        if what == "grouped":
            return self.group(source_of(left, "s"), last=False)
        if what == "same" and not left.text.startswith("("):
            return left
        if what in ("same", "deep"):
            return self.relation(min(depth, 1))
        return {"base": self.base, "points": self.points, "always": self.always}[what]()

    def join(self, left: Source, right: Relation, alias: str) -> Source:
        mine = source_of(right, alias)
        kinds = ("",) if not right.windows else ("", "", "", "LEFT", "FULL", "RIGHT")
        kind = self.choose.pick(kinds) if not left.where else ""
        if kind == "" and not right.windows and not left.where and self.choose.chance(15):
            kind = "LEFT"
        on, aligned = self._on(left, mine)
        if not on:
            kind, on = "", ["TRUE"]
        overlap = f"greatest({left.start}, {mine.start}) < least({left.end}, {mine.end})"
        clause = f"{kind} JOIN" if kind else "JOIN"
        where: tuple[str, ...] = ()
        said = f" {clause} {right.text} AS {alias} ON {' AND '.join(on)}"
        using = [part.split(" = ") for part in on]
        same = [pair[0][2:] for pair in using if len(pair) == 2 and pair[0][2:] == pair[1][2:]]
        if on == ["TRUE"]:
            said = f" CROSS JOIN {right.text} AS {alias}"
        elif not kind and " JOIN " not in left.text and self.choose.chance(15):
            said, where = f", {right.text} AS {alias}", tuple(on)
        elif not kind and alias == "q" and len(same) == len(on) and self.choose.chance(15):
            said = f" {clause} {right.text} AS {alias} USING ({', '.join(same)})"
        duck = f" {clause} {right.duck} AS {alias} ON {' AND '.join([*on, overlap])}"
        always = not right.windows and right.whole
        mine_null, left_null = kind in ("LEFT", "FULL"), kind in ("RIGHT", "FULL")
        return Source(
            left.text + said,
            left.duck + duck,
            (
                *(replace(c, may_be_null=c.may_be_null or left_null) for c in left.columns),
                *(replace(c, may_be_null=c.may_be_null or mine_null) for c in mine.columns),
            ),
            exact=left.exact and right.exact and (not kind or always),
            # Rows of an outer join of windows start with their window, not at their own time; see
            # tests/planner/sql/test_window_joins.py.
            timed=left.timed and right.timed and (not kind or always),
            alone=left.alone and always and not kind,
            whole=left.whole and (right.whole and (aligned or always)),
            where=(*left.where, *where),
            duck_where=left.duck_where,
            rows=left.rows or right.rows,
            function=_function(left, mine, kind),
            is_outer=left.is_outer or left_null,
            start=f"greatest({left.start}, {mine.start})",
            end=f"least({left.end}, {mine.end})",
        )

    def _on(self, left: Source, right: Source) -> tuple[list[str], bool]:
        """Return conditions, and whether they only pair rows of the same window."""
        keys = [(a, b) for a in left.of_role("key") for b in right.of_role("key")]
        same = [
            (a, b) for a in left.of_role("start", "end") for b in right.of_role("start", "end")
            if a.role == b.role and a.windows == b.windows
        ]  # fmt: skip
        hop = any(w.overlap for w in {*left.windows, *right.windows})
        one = bool(same) and not hop
        found: list[str] = []
        if keys and (not same or not self.choose.chance(15)):
            a, b = self.choose.pick(keys)
            found.append(f"{a.shown} = {b.shown}")
        if same and (not found or self.choose.chance(85 if hop else 50)):
            chosen = same if self.choose.chance(50) else [self.choose.pick(same)]
            found += [f"{a.shown} = {b.shown}" for a, b in chosen]
            kinds = {a.windows.kind for a, _ in chosen if a.windows is not None}
            one = one or kinds <= {"TUMBLE", "HOP"} or len({a.role for a, _ in chosen}) == 2
        numbers = [(a, b) for a in left.of_role("int") for b in right.of_role("int")]
        if numbers and found and self.choose.chance(15):
            a, b = self.choose.pick(numbers)
            found.append(f"{a.shown} {self.choose.pick(('<', '>=', '<>', '='))} {b.shown}")
        return found, one and len({*left.windows, *right.windows}) == 1

    def filtered(self, source: Source) -> Source:
        """A condition on a number or on a bound."""
        numbers = source.of_role("int", "start", "end")
        if not numbers:
            return source
        column = self.choose.pick(numbers)
        sign = self.choose.pick(("<", ">=", "<>"))
        if column.role == "int":
            mine = f"{column.shown} {sign} {self.choose.below(15)}"
            theirs = mine
        else:
            at = self.choose.below(12)
            mine = f"{column.shown} {sign} TIMESTAMP '1970-01-01 00:00:{at:02}'"
            theirs = f"{column.shown} {sign} {at * SECOND}"
        return replace(source, where=(*source.where, mine), duck_where=(*source.duck_where, theirs))

    def exists(self, source: Source, other: Relation) -> Source:
        """EXISTS, NOT EXISTS, IN or NOT IN."""
        inner = source_of(other, "e")
        on, aligned = self._on(source, inner)
        if not on:
            return source
        aligned = aligned or (other.whole and not other.windows)
        negated = "NOT " if self.choose.chance(40) else ""
        overlap = f"greatest({source.start}, e._s) < least({source.end}, e._e)"
        both = f"{' AND '.join(on)}"
        mine = f"{negated}EXISTS (SELECT * FROM {other.text} AS e WHERE {both})"
        plain = not any(f"{kind} JOIN" in mine + source.text for kind in ("LEFT", "RIGHT", "FULL"))
        plain = plain and "ROLLUP" not in "".join([*self.views, *self.definitions, mine])
        may = not negated or (plain and on[0].endswith(".k"))
        if len(on) == 1 and " = " in on[0] and may and self.choose.chance(40):
            outer, key = on[0].split(" = ")
            mine = f"{outer} {negated}IN (SELECT {key} FROM {other.text} AS e)"
        text, where = source.text, (*source.where, mine)
        if not source.where and self.choose.chance(15):
            word = "ANTI" if negated else "SEMI"
            text, where = f"{text} {word} JOIN {other.text} AS e ON {both}", source.where
        theirs = f"FROM {other.duck} AS e WHERE {both} AND {overlap}"
        first = f"(SELECT min(e._s) {theirs})"
        return replace(
            source,
            text=text,
            where=where,
            duck_where=(*source.duck_where, f"{negated}EXISTS (SELECT * {theirs})"),
            start=source.start if negated else f"greatest({source.start}, {first})",
            exact=source.exact and other.exact and aligned and not negated,
            timed=source.timed and other.timed and other.exact and aligned and not negated,
            alone=source.alone and bool(negated),
            whole=source.whole and other.whole and aligned,
            function=source.function if not other.rows else None,
        )


def _function(left: Source, right: Source, kind: str) -> tuple[str, str, str] | None:
    """Return the window function that both sides share; None if there are others."""
    if left.is_outer or kind in ("RIGHT", "FULL"):
        return None
    if left.function and not right.rows:
        return left.function
    return right.function if not left.rows and not kind else None
