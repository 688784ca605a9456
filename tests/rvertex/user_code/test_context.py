"""External values: recorded in the order of the calls, replayed, and never mixed up.

Not covered: a journal that is not durable in time, for which the host is responsible.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from rvertex.user_code.context import Drawn, ValueJournal, VertexContext
from rvertex.user_code.errors import NoLoggedValuesError, ReplayedValueError, UserResultError


class Outside:
    """Returns other values at every call."""

    def __init__(self) -> None:
        self.calls = 0

    def now_us(self) -> int:
        self.calls += 1
        return self.calls

    def random(self) -> float:
        self.calls += 1
        return self.calls / 1000


def context(journal: ValueJournal, outside: Outside) -> VertexContext:
    made = VertexContext()
    made.use_values(journal, outside)
    return made


def draw(ctx: VertexContext, kind: str) -> object:
    if kind == "lookup":
        return ctx.lookup(str.upper, "a")
    return ctx.now() if kind == "now" else ctx.random()


KINDS = st.lists(st.sampled_from(["now", "random", "lookup"]), max_size=12)


@settings(deadline=None)
@given(KINDS, st.integers(0, 12), st.integers(0, 12))
def test_recorded_values_are_replayed_from_any_snapshot(
    kinds: list[str], at: int, durable: int
) -> None:
    at, durable = min(at, len(kinds)), min(durable, len(kinds))
    journal, outside = ValueJournal(), Outside()
    ctx = context(journal, outside)
    values = [draw(ctx, kind) for kind in kinds]
    first, fresh = journal.take_fresh()
    assert (first, len(fresh)) == (0, len(kinds))
    assert journal.take_fresh() == (len(kinds), ())
    at = min(at, durable)
    again = ValueJournal(fresh[at:durable], first_index=at)
    restored = context(again, outside)
    restored.load(at)
    repeated = [draw(restored, kind) for kind in kinds[at:]]
    assert repeated[: durable - at] == values[at:durable]
    assert again.take_fresh()[0] == durable
    assert again.next_index == len(kinds)


def test_a_journal_drops_entries_and_goes_back() -> None:
    journal, outside = ValueJournal(), Outside()
    ctx = context(journal, outside)
    drawn = [ctx.now() for _ in range(5)]
    journal.forget(2)
    ctx.load(3)
    assert [ctx.now(), ctx.now(), ctx.now()] == [*drawn[3:], 6]
    assert journal.take_fresh()[0] == 2


def test_another_request_is_an_integrity_error() -> None:
    journal = ValueJournal([Drawn("now", "", 5)])
    ctx = context(journal, Outside())
    with pytest.raises(
        ReplayedValueError, match=r"recorded for now\(\), but is now requested .*random"
    ):
        ctx.random()


def test_lookups_have_a_name_and_plain_values() -> None:
    journal = ValueJournal()
    ctx = context(journal, Outside())
    assert ctx.lookup(lambda key: {"a": [key, None, 1.5]}, "k") == {"a": ["k", None, 1.5]}
    assert "'k'" in journal.take_fresh()[1][0].argument
    with pytest.raises(UserResultError, match="the result cannot be recorded"):
        ctx.lookup(lambda key: object(), 1)


def test_without_a_source_no_value_can_be_drawn() -> None:
    ctx = VertexContext()
    assert ctx.next_index == 0
    ctx.load(0)
    for kind in ("now", "random", "lookup"):
        with pytest.raises(NoLoggedValuesError):
            draw(ctx, kind)
