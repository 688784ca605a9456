"""The snapshots of one vertex are totally ordered; two incomparable ones prove non-determinism."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from jobmanager.errors import NotDeterministicError
from jobmanager.state.tracker import SnapshotTracker
from tests.support.shapes import diamond, snapshot_at


def test_snapshots_after_the_lost_item_are_dropped_and_those_before_it_are_kept() -> None:
    tracker = SnapshotTracker(diamond())
    tracker.add("t", snapshot_at("below", (2, 2), (4,)))
    assert not tracker.discard_beyond("t", 0, 4)
    tracker.add("t", snapshot_at("beyond", (3, 3), (5,)))
    assert tracker.discard_beyond("t", 0, 4)
    assert [ref.name for ref in tracker.refs("t")] == ["", "below"]


def test_figure_5_largest_snapshot_at_or_below_the_lost_item() -> None:
    tracker = SnapshotTracker(diamond())
    s1 = snapshot_at("s1", (2, 7), (12,))
    s2 = snapshot_at("s2", (5, 10), (20,))
    tracker.add("t", s2)
    tracker.add("t", s1)
    assert tracker.usable("t", [16]) == s1
    assert tracker.usable("t", [20]) == s2
    assert tracker.usable("t", [11]) == snapshot_at("", (0, 0), (0,))
    assert tracker.usable("t", [None]) == s2
    tracker.check()


def test_incomparable_snapshots_are_an_integrity_error() -> None:
    tracker = SnapshotTracker(diamond())
    tracker.add("t", snapshot_at("one", (7, 12), (5,)))
    with pytest.raises(NotDeterministicError, match="vertex t is not deterministic"):
        tracker.add("t", snapshot_at("other", (6, 16), (4,)))


def test_a_corrupt_checkpoint_is_dropped_but_never_the_initial_one() -> None:
    tracker = SnapshotTracker(diamond())
    tracker.add("t", snapshot_at("s1", (2, 7), (12,)))
    tracker.discard("t", "s1")
    assert tracker.newest("t").name == ""
    tracker.discard("t", "")
    assert tracker.newest("t").name == ""


def test_snapshots_out_of_order_with_their_neighbours_are_dropped() -> None:
    """The input of such a checkpoint may be deleted, so its announcement is an error."""
    tracker = SnapshotTracker(diamond())
    assert tracker.add("t", snapshot_at("first", (2, 2), (2,)))
    assert tracker.add("t", snapshot_at("last", (6, 6), (6,), reads=(4, 4)))
    for reads in ((1, 3), (3, 1), (5, 4), (4, 5)):
        assert not tracker.add("t", snapshot_at("between", (5, 5), (5,), reads=reads))
    assert [ref.name for ref in tracker.refs("t")] == ["", "first", "last"]
    assert tracker.add("t", snapshot_at("between", (5, 5), (5,), reads=(2, 4)))
    assert [ref.name for ref in tracker.refs("t")] == ["", "first", "between", "last"]


@given(st.permutations(range(6)), st.integers(0, 60))
def test_the_newest_snapshot_within_the_limit_is_usable(order: list[int], limit: int) -> None:
    tracker = SnapshotTracker(diamond())
    for k in order:
        tracker.add("t", snapshot_at(f"s{k}", (k + 1, 2 * k), (10 * k,)))
        tracker.check()
    expected = max((10 * k for k in range(6) if 10 * k <= limit), default=0)
    found = tracker.usable("t", [limit])
    assert found is not None
    assert found.outputs == (expected,)
