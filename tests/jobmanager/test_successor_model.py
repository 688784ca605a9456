"""A successor that reads a job manager's log keeps no checkpoint that the first one deletes.

The first one keeps more for running instances. A successor assumes that none runs, so its oldest
checkpoint may be later. Both must still reject the same announcements, or the successor keeps what
its predecessor has deleted.

Not covered: files that are deleted before the reason is durable (tests/sim).
"""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from jobmanager.state.tracker import SnapshotTracker
from tests.support.shapes import diamond, snapshot_at

#: The positions of the vertex after k items, in its two inputs and its output.
POSITIONS = [((2 * k, k + k // 3), (k,)) for k in range(13)]
announcements = st.tuples(
    st.integers(1, 12), st.tuples(st.integers(0, 9), st.integers(0, 9)), st.just("announced")
)
collections = st.tuples(st.integers(0, 12), st.integers(0, 12), st.just("collected"))


@given(st.lists(announcements | collections, max_size=25))
@example([(6, (3, 3), "announced"), (0, 9, "collected"), (7, (3, 5), "announced")])
@example([(9, (9, 9), "announced"), (6, (1, 1), "announced"), (0, 1, "collected")])
def test_a_successor_keeps_the_newest_of_the_kept_checkpoints(history: list[tuple]) -> None:  # type: ignore[type-arg]
    """Announcements in any order, from any position; the successor's marks may be ahead."""
    live, successor = SnapshotTracker(diamond()), SnapshotTracker(diamond())
    deleted: set[str] = set()
    for number, (one, other, what) in enumerate(history):
        if what == "announced":
            inputs, outputs = POSITIONS[one]
            reads = tuple(max(0, seq - back) for seq, back in zip(inputs, other, strict=True))
            ref = snapshot_at(f"{number}", inputs, outputs, reads=reads)
            if not live.add("t", ref):
                deleted.add(ref.name)
            successor.add("t", ref)
        else:
            refs = live.refs("t")
            kept = refs[min(one, len(refs) - 1)]
            deleted.update(r.name for r in live.drop_before("t", kept))
            refs = successor.refs("t")
            least = refs.index(kept) if kept in refs else 0
            successor.drop_before("t", refs[min(least + other, len(refs) - 1)])
        live.check()
        successor.check()
        known = list(successor.refs("t"))
        assert known == list(live.refs("t"))[-len(known) :]
        assert deleted.isdisjoint(ref.name for ref in known)
