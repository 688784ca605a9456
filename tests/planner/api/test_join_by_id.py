"""Events joined with the event whose id they contain, compared with a loop over all pairs.

Not covered: cuts and restores of interval joins and deduplication, which have their own tests.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from planner import InvalidPlanError, Stream, event
from planner.physical.lower import lower
from tests.support.budget import one_in, seeds
from tests.support.plan_runner import answer

Row = tuple[int, dict[str, Any]]


def stream_of(rows: list[Row], **columns: str) -> Stream:
    return Stream.from_items(columns, [event(at, **payload) for at, payload in rows])


def answer_of(stream: Stream) -> list[tuple[Any, ...]]:
    plan = lower(stream.to_parquet(), root="memory://ids", parallelism=2)
    rows = [tuple(row.values()) for row in answer(plan).to_pylist()]
    return sorted((row[0], *row[2:]) for row in rows if row[1] == row[0] + 1)


SEARCHES = [(5, {"q": 1, "text": "a"}), (40, {"q": 2, "text": "b"}), (90, {"q": 3, "text": "c"})]
CLICKS = [
    (8, {"click": 1, "q": 1}),
    (9, {"click": 1, "q": 1}),  # the same click again
    (35, {"click": 2, "q": 2}),  # before its search
    (70, {"click": 3, "q": 3}),  # its search arrives too late, but within retry
    (75, {"click": 4, "q": 9}),
    (76, {"click": None, "q": 1}),
    (77, {"click": None, "q": 1}),
]


def searches() -> Stream:
    return stream_of(SEARCHES, q="int64", text="string")


def clicks() -> Stream:
    return stream_of(CLICKS, click="int64", q="int64")


def test_clicks_are_joined_with_their_queries() -> None:
    joined = searches().join_by_id(clicks(), on="q", id="click", unjoinable_after=10, retry=20)
    assert joined.schema.names == ["click", "q", "text", "unjoinable"]
    assert sorted(answer_of(joined), key=repr) == sorted(
        [
            (8, 1, 1, "a", False),
            (40, 2, 2, "b", False),
            (80, 3, 3, None, True),
            (85, 4, 9, None, True),
            (86, None, 1, None, True),
            (87, None, 1, None, True),
            (90, 3, 3, "c", False),
        ],
        key=repr,
    )


@pytest.mark.parametrize("seed", one_in(4, seeds(0, 12)))
def test_equals_a_loop_over_all_pairs(seed: int) -> None:
    random = Random(seed)
    after, retry = random.choice([(10, 0), (10, 15), (3, 40)])
    primary = [(at, {"q": random.randrange(12), "s": n}) for n, at in enumerate(range(0, 200, 3))]
    foreign = [
        (random.randrange(200), {"click": n, "q": random.choice([*range(14), None])})
        for n in range(60)
    ]
    kept = first_of(primary, "q", 2 * after + retry + 1)
    expected = []
    for at, payload in foreign:
        click, q = payload["click"], payload["q"]
        near = [(p, row) for p, row in kept if row["q"] == q and abs(p - at) <= after]
        later = [(p, row) for p, row in kept if row["q"] == q and after < p - at <= after + retry]
        assert len(near) + len(later) <= 1
        expected += [(max(p, at), click, q, row["s"], False) for p, row in (*near, *later)]
        if not near:
            expected.append((at + after, click, q, None, True))
    joined = stream_of(primary, q="int64", s="int64").join_by_id(
        stream_of(sorted(foreign, key=lambda row: row[0]), click="int64", q="int64"),
        on="q",
        id="click",
        unjoinable_after=after,
        retry=retry,
    )
    assert sorted(answer_of(joined), key=repr) == sorted(expected, key=repr)


def first_of(rows: list[Row], key: str, within: int) -> list[Row]:
    kept: list[Row] = []
    for at, row in rows:
        if all(other[key] != row[key] or at - before >= within for before, other in kept):
            kept.append((at, row))
    return kept


def test_wrong_arguments_of_a_join_by_id_are_named() -> None:
    with pytest.raises(InvalidPlanError, match="takes another stream, not 5"):
        searches().join_by_id(5, on="q", unjoinable_after=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidPlanError, match="retry='-1s'\\): must be 0 or more"):
        searches().join_by_id(clicks(), on="q", unjoinable_after=1, retry="-1s")
    with pytest.raises(InvalidPlanError, match="text"):
        searches().join_by_id(clicks(), on="text", unjoinable_after=1)
    taken = clicks().with_columns(unjoinable=1)
    with pytest.raises(InvalidPlanError, match="adds the column 'unjoinable': rename yours"):
        searches().join_by_id(taken, on="q", unjoinable_after=1)
