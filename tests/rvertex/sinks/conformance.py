"""The test suite for destinations: each row exactly once and in order, despite crashes and sleeps.

A test module subclasses :class:`Conformance` with a fixture ``place``, an adapter that implements
:class:`tests.rvertex.sinks.places.Place`. Each test has a new place. :class:`Deliveries` is the
part of the suite that writes rows of one schema.

Not covered: a power loss, a destination that loses acknowledged rows, or a network that delivers
an old commit after its connection has closed.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rstream.errors import StreamEngineError, UsageError
from rvertex.sinks.errors import DeliveryFencedError
from rvertex.sinks.protocol import DeliveredRows
from tests.rvertex.sinks.places import TYPED, Place, Row, expected, items, progress
from tests.rvertex.sinks.writers import Writer, perform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.sinks.protocol import Destination

Call = tuple[str, tuple[int, ...]]
#: The calls of one writer: commits of two writes, of one, and of CTIs only.
CALLS: tuple[Call, ...] = (
    ("open", (1,)),
    ("write", (0, 4)),
    ("write", (4, 10)),
    ("commit", (10,)),
    ("write", (10, 12)),
    ("commit", (12,)),
    ("write", (12, 13)),
    ("commit", (13,)),
)
END = 20
KILLS = 10
CALL_MS_MAX = 12.0
LARGE_ITEMS = 150_000


class Deliveries:
    """The suite without the tests of types; a subclass provides the place."""

    def test_first_open_finds_nothing(self, place: Place) -> None:
        destination = place.destination(0)
        assert destination.open(1) is None
        destination.close()
        destination.close()
        assert place.rows() == []

    def test_rows_are_visible_with_the_commit(self, place: Place) -> None:
        with opened(place, 0, 1) as destination:
            destination.write(items(0, 0, 4))
            destination.write(items(0, 4, 10))
            assert place.rows() == []
            destination.commit(progress(0, 10))
            assert place.rows() == expected(0, 10)

    def test_uncommitted_rows_are_discarded(self, place: Place) -> None:
        with opened(place, 0, 1) as destination:
            deliver(destination, 0, 0, 4)
            destination.write(items(0, 4, 10))
        assert place.rows() == expected(0, 4)
        with opened(place, 0, 1, next_seq=4) as destination:
            deliver(destination, 0, 4, 5)
        assert place.rows() == expected(0, 5)

    def test_open_again_gives_the_progress(self, place: Place) -> None:
        """Uncommitted rows are dropped, regardless of which writer opens."""
        first = place.destination(0)
        first.open(4)
        deliver(first, 0, 0, 7)
        first.write(items(0, 7, 9))
        assert first.open(4) == progress(0, 7)
        deliver(first, 0, 7, 8)
        with opened(place, 0, 4, next_seq=8) as same, opened(place, 0, 9, next_seq=8) as next_one:
            same.close()
            deliver(next_one, 0, 8, END)
        first.close()
        assert place.rows() == expected(0, END)

    def test_commits_without_rows(self, place: Place) -> None:
        """CTIs have numbers but no rows; an empty commit changes nothing."""
        with opened(place, 0, 1) as destination:
            deliver(destination, 0, 0, 1)
            destination.commit(progress(0, 1))
            assert destination.open(1) == progress(0, 1)
            destination.commit(progress(0, 1))
        with opened(place, 0, 2, next_seq=1) as destination:
            deliver(destination, 0, 1, 3)
            destination.commit(progress(0, 3))
            deliver(destination, 0, 3, 4)
        with opened(place, 0, 3, next_seq=4) as destination:
            assert place.rows() == expected(0, 4)

    def test_partitions_are_independent(self, place: Place) -> None:
        with opened(place, 0, 5) as zero, opened(place, 1, 2) as one:
            zero.write(items(0, 0, 8))
            deliver(one, 1, 0, 5)
            assert place.rows() == expected(1, 5)
            zero.commit(progress(0, 8))
            one.write(items(1, 5, 9))
            with opened(place, 0, 6, next_seq=8) as successor:
                deliver(successor, 0, 8, END)
            one.commit(progress(1, 9))
        check_rows(place, {0: END, 1: 9})

    @pytest.mark.slow
    def test_large_and_many(self, place: Place) -> None:
        with opened(place, 0, 1) as destination:
            deliver(destination, 0, 0, LARGE_ITEMS)
            for seq in range(LARGE_ITEMS, LARGE_ITEMS + 500):
                destination.write(items(0, seq, seq + 1))
            destination.commit(progress(0, LARGE_ITEMS + 500))
        assert place.rows() == expected(0, LARGE_ITEMS + 500)

    def test_old_handle_is_fenced(self, place: Place) -> None:
        old = place.destination(0)
        old.open(1)
        deliver(old, 0, 0, 4)
        old.write(items(0, 4, 9))
        with opened(place, 0, 2, next_seq=4) as successor:
            with pytest.raises(StreamEngineError):
                deliver(old, 0, 9, 10)
            assert place.rows() == expected(0, 4)
            with pytest.raises(DeliveryFencedError):
                old.open(1)
            deliver(successor, 0, 4, 6)
            with pytest.raises(DeliveryFencedError):
                old.open(1)
            deliver(successor, 0, 6, END)
        old.close()
        assert place.rows() == expected(0, END)

    def test_writer_that_never_committed_is_fenced(self, place: Place) -> None:
        old = place.destination(0)
        assert old.open(1) is None
        with opened(place, 0, 2) as successor:
            with pytest.raises(StreamEngineError):
                deliver(old, 0, 0, 4)
            assert place.rows() == []
            deliver(successor, 0, 0, END)
        old.close()
        assert place.rows() == expected(0, END)

    @pytest.mark.slow
    def test_killed_between_any_two_calls(self, place: Place) -> None:
        """Each number of calls has its own partition."""
        for count in range(1, len(CALLS) + 1):
            partition = count - 1
            writer = Writer(place, partition)
            for call, numbers in CALLS[:count]:
                writer.begin(call, *numbers)
                writer.answer()
            writer.kill()
            done = max((n[0] for call, n in CALLS[:count] if call == "commit"), default=None)
            with opened(place, partition, 2, next_seq=done) as successor:
                deliver(successor, partition, done or 0, END)
        check_rows(place, dict.fromkeys(range(len(CALLS)), END))

    @pytest.mark.slow
    def test_killed_within_a_call(self, place: Place) -> None:
        """The answer of the last call is lost; ``open`` returns whether the call took effect."""
        dice = random.Random(1)
        begun: tuple[int, ...] = (0,)
        for epoch in range(1, KILLS):
            writer = Writer(place, 0)
            found = writer.open(epoch)
            next_seq = 0 if found is None else found.next_seq
            assert next_seq in begun
            assert found in (None, progress(0, next_seq))
            assert place.rows() == expected(0, next_seq)
            writer.write(next_seq, next_seq + 5)
            writer.begin("commit", next_seq + 5)
            time.sleep(dice.random() * CALL_MS_MAX / 1000)  # the moment of the kill
            writer.kill()
            begun = (next_seq, next_seq + 5)
        finish(place, KILLS)

    @pytest.mark.slow
    def test_frozen_between_calls(self, place: Place) -> None:
        """A writer is suspended with uncommitted rows while a successor continues.

        Then it wakes up.
        """
        for partition, count in enumerate(range(1, 4)):
            zombie = Writer(place, partition)
            for call, numbers in CALLS[:count]:
                zombie.begin(call, *numbers)
                zombie.answer()
            zombie.freeze()
            with opened(place, partition, 2) as successor:
                deliver(successor, partition, 0, 8)
                zombie.thaw()
                with pytest.raises(StreamEngineError):
                    zombie.commit(10)
                with pytest.raises(DeliveryFencedError):
                    zombie.open(1)
                zombie.kill()
                deliver(successor, partition, 8, END)
        check_rows(place, dict.fromkeys(range(3), END))

    @pytest.mark.slow
    def test_frozen_within_a_commit(self, place: Place) -> None:
        """The commit took effect before the successor opened, or never."""
        dice = random.Random(2)
        for partition in range(KILLS // 2):
            zombie = Writer(place, partition)
            zombie.open(1)
            zombie.write(0, 6)
            zombie.begin("commit", 6)
            time.sleep(dice.random() * CALL_MS_MAX / 1000)  # the moment of the freeze
            zombie.freeze()
            successor = place.destination(partition)
            found = successor.open(2)
            assert found in (None, progress(partition, 6))
            done = 0 if found is None else 6
            zombie.thaw()
            if found is None:
                with pytest.raises(StreamEngineError):
                    zombie.answer()
            else:
                with contextlib.suppress(StreamEngineError):
                    zombie.answer()
            deliver(successor, partition, done, END)
            successor.close()
            zombie.kill()
        check_rows(place, dict.fromkeys(range(KILLS // 2), END))


class Conformance(Deliveries):
    """The whole suite; a subclass provides the place."""

    def test_every_type_is_read_back(self, place: Place) -> None:
        kept = [name for name in TYPED.schema.names if name not in place.refused]
        batch = TYPED.select(kept)
        destination = place.destination(0, batch.schema)
        destination.open(1)
        seqs = np.arange(batch.num_rows)
        destination.write(DeliveredRows(0, batch.num_rows, seqs, batch))
        destination.commit(progress(0, batch.num_rows))
        destination.close()
        wanted = [
            {name: place.shown(name, value) for name, value in row.items()}
            for row in batch.to_pylist()
        ]
        for found, row in zip(place.rows(), wanted, strict=True):
            for name in kept:
                assert found[name] == row[name], name

    def test_rejected_types_are_named(self, place: Place) -> None:
        for name, word in place.refused.items():
            batch = TYPED.select([name])
            with pytest.raises(UsageError, match=word) as refused:
                place.destination(0, batch.schema).open(1)
            assert name in str(refused.value)


@contextlib.contextmanager
def opened(
    place: Place, partition: int, epoch: int, next_seq: int | None = None
) -> Iterator[Destination]:
    """Open a handle, and check the progress that it returns."""
    destination = place.destination(partition)
    found = destination.open(epoch)
    assert found == (None if next_seq is None else progress(partition, next_seq))
    yield destination
    destination.close()


def deliver(destination: Destination, partition: int, first_seq: int, next_seq: int) -> None:
    """Write and commit these items."""
    perform(destination, partition, "write", (first_seq, next_seq))
    perform(destination, partition, "commit", (next_seq,))


def finish(place: Place, epoch: int) -> None:
    """Deliver partition 0 to its end from its present position."""
    destination = place.destination(0)
    found = destination.open(epoch)
    done = 0 if found is None else found.next_seq
    deliver(destination, 0, done, done + END)
    destination.close()
    assert place.rows() == expected(0, done + END)


def check_rows(place: Place, next_seqs: dict[int, int]) -> None:
    """Check that each partition has its rows in order; partitions may be interleaved."""
    rows = sorted(place.rows(), key=_partition)  # stable
    found: dict[Any, list[Row]] = {
        part: list(group) for part, group in itertools.groupby(rows, _partition)
    }
    assert found == {part: expected(part, next_seq) for part, next_seq in next_seqs.items()}


def _partition(row: Row) -> int:
    found: int = row["part"]
    return found
