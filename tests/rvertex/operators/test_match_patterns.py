"""MATCH against an exhaustive matcher: random patterns, conditions and rows, cuts and restores.

Not covered: a mistake that the naive matcher shares with the operator (an empty round ends a loop;
the order of PERMUTE).
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from planner.api.expressions import Expr, col
from planner.batch.user_code.matches import match_rows
from planner.expressions.nodes import resolve
from rstream.types import INF_TIME
from rvertex.errors import OperatorTypeError
from rvertex.operators.ordered.matching.match import MatchRows
from rvertex.operators.ordered.matching.navigation import Leaf
from rvertex.operators.ordered.matching.pattern import (
    Alternation,
    Exclusion,
    Pattern,
    Permutation,
    Repetition,
    Sequence,
    Var,
    compiled,
    has_exclusion,
)
from rvertex.operators.ordered.matching.rows import Skip
from rvertex.operators.ordered.matching.spec import Condition, Measure
from tests.support.budget import one_in, scaled, seeds
from tests.support.builders import cti, ev, make_run
from tests.support.cut_runs import run_cut
from tests.support.naive_match import Mapped, Naive, TooManyWaysError, matches
from tests.support.operator_harness import assert_cut_invariant

if TYPE_CHECKING:
    from collections.abc import Callable

I64, TEXT = pa.int64(), pa.string()
PAYLOAD = pa.schema([("k", I64), ("x", I64)])
NAMES = ("A", "B", "C", "D")
#: Leaves of conditions: the current row, its neighbours, and earlier mapped rows.
LEAVES = (
    Leaf("row", I64, None, "x"),
    Leaf("row", I64, None, "x", move=-1),
    Leaf("row", I64, None, "x", move=1),
    Leaf("row", I64, (0,), "x"),
    Leaf("row", I64, None, "x", from_first=True),
    Leaf("row", I64, None, "x", offset=1),
    Leaf("aggregate", I64, None, "x", function="sum"),
    Leaf("aggregate", I64, (1,), None, function="count"),
    Leaf("row", I64, (1, 2), "x", from_first=True, offset=1, move=-1),
    Leaf("classifier", TEXT, None, offset=1),
)
LEAF_SCHEMA = pa.schema([(f"leaf{i}", leaf.type) for i, leaf in enumerate(LEAVES)])
MEASURES = (
    Leaf("match_number", I64),
    Leaf("classifier", TEXT),
    Leaf("aggregate", I64, None, None, function="count"),
    Leaf("row", I64, (0, 1), "x"),
    Leaf("aggregate", I64, (1,), "x", is_final=True, function="sum"),
    Leaf("row", I64, None, "x", move=-2),
)


def x_of(rows: list[dict[str, Any]], at: int | None) -> int | None:
    return None if at is None or not 0 <= at < len(rows) else rows[at]["x"]


def value(leaf: Leaf, rows: list[dict[str, Any]], start: int, mapped: Mapped, end: int) -> Any:
    """Return the value of a leaf over the first ``end`` rows of a match."""
    if leaf.is_final:
        end = len(mapped)
    wanted = range(4) if leaf.variables is None else leaf.variables
    places = [start + i for i, (v, _) in enumerate(mapped[:end]) if v in wanted]
    if leaf.kind == "aggregate":
        values = [v for p in places if (v := rows[p]["x"]) is not None]
        if leaf.function == "count":
            return len(places)
        return sum(values) if values else None
    asked = leaf.offset if leaf.from_first else -1 - leaf.offset
    at = places[asked] if -len(places) <= asked < len(places) else None
    if leaf.kind == "classifier":
        return None if at is None else NAMES[mapped[at - start][0]]
    return x_of(rows, None if at is None else at + leaf.move)


def random_condition(
    chance: random.Random, local: bool, leaves: int
) -> tuple[Condition, Callable[..., bool]]:
    """A condition on the first ``leaves`` leaves, and the same condition in Python."""
    i = chance.choice([0, 0, 0, 1, 2][: leaves + 2] if local else range(leaves))
    leaf = LEAVES[i]
    asked = f"leaf{i}"
    expr: Expr
    says: Callable[[Any], bool]
    if leaf.kind == "classifier":
        wanted = chance.choice(NAMES)
        expr, says = col(asked) != wanted, lambda v: v != wanted
    else:
        kind, limit = chance.choice(["<", ">", "=", "null", "<row"]), chance.randrange(5)
        if kind == "<row":
            j = chance.choice([0, 3, 4] if not local else [0])
            expr = col(f"leaf{j}") <= col(asked)
            test = Condition(resolve(expr.node, LEAF_SCHEMA), tuple({j: 0, i: 0}))

            def compares(rows: Any, start: int, mapped: Mapped) -> bool:
                both = [value(LEAVES[k], rows, start, mapped, len(mapped)) for k in (j, i)]
                return None not in both and both[0] <= both[1]

            return test, compares
        expr = {
            "<": col(asked) < limit,
            ">": col(asked) > limit,
            "=": col(asked) == limit,
            "null": col(asked).is_null() | (col(asked) != 2),
        }[kind]
        says = {
            "<": lambda v: v < limit,
            ">": lambda v: v > limit,
            "=": lambda v: v == limit,
            "null": lambda v: v is None or v != 2,
        }[kind]
    condition = Condition(resolve(expr.node, LEAF_SCHEMA), (i,))
    takes_null = "null" in str(expr.node)

    def holds(rows: Any, start: int, mapped: Mapped) -> bool:
        found = value(leaf, rows, start, mapped, len(mapped))
        return says(found) if found is not None or takes_null else False

    return condition, holds


def random_pattern(chance: random.Random, depth: int) -> Pattern:
    kind = chance.random()
    if depth == 0 or kind < 0.25:
        return Var(chance.randrange(4))

    def parts(least: int) -> tuple[Pattern, ...]:
        count = chance.randint(least, 3)
        return tuple(random_pattern(chance, depth - 1) for _ in range(count))

    if kind < 0.55:
        return Sequence(parts(1))
    if kind < 0.65:
        return Alternation(parts(2))
    if kind < 0.7:
        return Permutation(parts(2))
    if kind < 0.75:
        return Exclusion(random_pattern(chance, depth - 1))
    least, more = chance.choice([(0, None), (1, None), (0, 1), (2, None), (0, 2), (1, 3), (2, 2)])
    return Repetition(random_pattern(chance, depth - 1), least, more, chance.random() < 0.7)


def check(seed: int) -> bool:
    """Compare a random case. Return whether it was possible."""
    chance = random.Random(seed)
    pattern = random_pattern(chance, 3)
    try:
        compiled(pattern)
    except OperatorTypeError:
        return False
    local = chance.random() < 0.6
    #: Whether many keys can be searched at once: values of the row and of earlier rows.
    is_simple = local and chance.random() < 0.6
    leaves = LEAVES[:2] if is_simple else LEAVES
    measures = MEASURES[1:] if is_simple else MEASURES
    made = [
        random_condition(chance, local, len(leaves)) if chance.random() < 0.85 else (None, None)
        for _ in range(4)
    ]
    within = chance.choice([None, None, 0, 5, 20])
    mode = chance.choice(["one", "all"] if is_simple else ["one", "all", "unmatched"])
    if has_exclusion(pattern) and mode == "unmatched":
        mode = "all"
    shows = chance.random() < 0.5
    known = sorted({int(index) for index in re.findall(r"Var\(index=(\d+)\)", repr(pattern))})
    to = "past" if is_simple else chance.choice(["past", "past", "next", "first", "last"])
    skip = Skip(to, (chance.choice(known),), "A")
    items: list[Any] = []
    keys: dict[int, list[dict[str, Any]]] = {}
    t = 0
    key_count = chance.choice([2, 2, 6]) if is_simple else 2
    for number in range(chance.randrange(3, 25)):
        t += chance.choice([0, 1, 1, 3])
        k, x = chance.randrange(key_count), chance.choice([0, 1, 2, 3, 4, None])
        items.append(ev(t, k=k, x=x))
        keys.setdefault(k, []).append({"t": t, "x": x, "n": number})
        if chance.random() < 0.3:
            items.append(cti(t))
    expected = []
    try:
        for k, rows in keys.items():
            naive = Naive(pattern, [python for _, python in made], rows, within)
            found = matches(naive, skip.to, skip.variables)
            expected += rows_of(found, rows, k, mode, shows, measures)
        is_refused = False
    except TooManyWaysError:
        return False
    except LookupError:
        is_refused = True
    expected.sort(key=lambda row: row[0])
    spec = MatchRows(
        ("k",), pattern, NAMES, tuple(condition for condition, _ in made), leaves,
        tuple(
            Measure(f"m{i}", leaf.type, resolve(
                col(f"leaf{i}").node, pa.schema([(f"leaf{i}", leaf.type)])
            ))
            for i, leaf in enumerate(measures)
        ),
        measures, ("k",) if mode == "one" else ("k", "x"), mode, shows, skip,
        INF_TIME if within is None else within,
    )  # fmt: skip
    run = make_run(_with_unique_ctis([*items, cti(INF_TIME)]), PAYLOAD)
    if is_refused:
        with pytest.raises(OperatorTypeError, match="AFTER MATCH SKIP"):
            run_cut(spec, [run], [PAYLOAD], ())
        return True
    size = run.events.num_rows
    cuts = [chance.sample(range(size + len(run.ctis)), 3)]
    out = run_cut(spec, [run], [PAYLOAD], ()) if seed % 5 else None
    whole = assert_cut_invariant(spec, [run], [PAYLOAD], *cuts) if out is None else out[0]
    if out is not None:
        pieces = run_cut(spec, [run], [PAYLOAD], cuts[0], restore=True)
        assert pa.Table.from_batches([p.events for p in pieces]).to_pylist() == (
            whole.events.to_pylist()
        ), seed
    made_rows = [list(row.values()) for row in whole.events.to_pylist()]
    assert [[row[0], *row[2:]] for row in made_rows] == [row[1:] for row in expected], (
        seed,
        pattern,
    )
    assert sorted(map(repr, made_rows)) == sorted(map(repr, twin_rows(spec, run.events))), seed
    return True


def twin_rows(spec: MatchRows, events: pa.RecordBatch) -> list[list[Any]]:
    """Return the batch result for the rows of each key."""
    made: list[list[Any]] = []
    for key in pc.unique(events.column("k")):
        rows = events.filter(pc.equal(events.column("k"), key))
        made += [list(row.values()) for row in match_rows(spec, rows).to_pylist()]
    return made


def _with_unique_ctis(items: list[Any]) -> list[Any]:
    seen: set[int] = set()
    return [i for i in items if not hasattr(i, "time") or not (i.time in seen or seen.add(i.time))]


def rows_of(
    found: list[tuple[int, Mapped | None]],
    rows: list[dict[str, Any]],
    key: int,
    mode: str,
    shows: bool,
    measures: tuple[Leaf, ...],
) -> list[list[Any]]:
    """Results as tuples: sort key, start, key, the row's column, measures."""
    made: list[list[Any]] = []
    number = 0
    for start, mapped in found:
        if mapped is None:
            if mode == "unmatched":
                row = rows[start]
                order = (row["t"], row["n"], row["n"], 0)
                made.append([order, row["t"], key, row["x"], *[None] * len(measures)])
            continue
        number += 1
        last = rows[start + max(len(mapped) - 1, 0)]
        places = [i for i, (_, out) in enumerate(mapped) if not out]
        if mode == "one":
            ends = [len(mapped)]
        else:
            ends = [i + 1 for i in places] or ([0] if shows and not mapped else [])
        for end in ends:
            values = [
                number if leaf.kind == "match_number" else value(leaf, rows, start, mapped, end)
                for leaf in measures
            ]
            own = [] if mode == "one" else [rows[start + max(end - 1, 0)]["x"]]
            order = (last["t"], last["n"], rows[start]["n"], end)
            made.append([order, last["t"], key, *own, *values])
    return made


@pytest.mark.parametrize("seed", one_in(3, range(15)))
def test_random_patterns_match_the_rows_of_the_naive_search(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize(
    "part",
    [
        Repetition(Var(0), 0, None, greedy=False),
        Sequence((Repetition(Var(0), 0, 1), Repetition(Var(1), 0, 1, greedy=False))),
        Alternation((Sequence(()), Var(0))),
    ],
)
def test_a_loop_over_a_part_that_prefers_no_row_is_rejected(part: Pattern) -> None:
    for least in (0, 1):
        with pytest.raises(OperatorTypeError, match="may match no row"):
            compiled(Repetition(part, least, None))
        assert compiled(Repetition(Sequence((part, Var(2))), least, None))
        assert compiled(Repetition(Repetition(Var(0), 0, 1), least, None))


def test_a_loop_of_a_part_that_prefers_a_row_is_compiled() -> None:
    """``((B+?)?)*``, ``(B+?|C*)*`` and ``((B{2}?)?)*``; ``((B?)+?)*`` prefers no row."""
    more, twice = (Repetition(Var(1), n, most, greedy=False) for n, most in ((1, None), (2, 2)))
    maybe = Repetition(Var(1), 0, 1)
    for part in (
        Repetition(more, 0, 1),
        Alternation((more, Repetition(Var(2), 0, None))),
        Repetition(twice, 0, 1),
    ):
        assert compiled(Repetition(part, 0, None))
    with pytest.raises(OperatorTypeError, match="may match no row"):
        compiled(Repetition(Repetition(maybe, 1, None, greedy=False), 0, None))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_many_random_patterns_match_the_rows_of_the_naive_search(part: int) -> None:
    tried = seeds(15 + part * scaled(100), 100)
    assert sum(check(seed) for seed in tried) > 0.9 * len(tried)
