"""An instance takes its last checkpoint once, when all channels are read up to the cut.

Not covered: wrong ends from the job manager (tests/jobmanager/manager).
"""

from __future__ import annotations

import pytest

from rvertex.checkpoint.last_checkpoint import LastCheckpoint
from tests.support.builders import ev
from tests.support.lives import LEFT, RIGHT, Life, arrival, channel, join_vertex, source_vertex


def test_a_reader_reads_every_channel_up_to_the_cut() -> None:
    inputs = [channel([ev(1, k=1, x=1.0), ev(2, k=1, x=1.0)], LEFT, [3]) for _ in range(2)]
    inputs.append(channel([ev(1, k=1, y=1)], RIGHT, [3]))
    life, taken = Life(join_vertex(), inputs, 1_000), [0]
    last = LastCheckpoint(life.vertex)

    def take() -> None:
        taken[0] += 1

    assert not last.poll(take), "nothing is requested"
    last.request((2, 1, 1))
    assert last.is_requested
    for number, rows in ((0, 2), (1, 1), (2, 1)):
        assert not last.poll(take)
        assert taken == [0], f"channel {number} is not read"
        life.act((number, rows))
    for _ in range(2):
        assert not last.poll(take), "only a source reads no further"
        assert taken == [1]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_source_reads_nothing_more(rows: int) -> None:
    life, taken = Life(source_vertex(), [arrival([ev(1, k=1, x=1.0)] * 3)], 1_000), [0]
    last = LastCheckpoint(life.vertex)

    def take() -> None:
        taken[0] += 1

    life.act((0, rows))
    last.request((0,))
    for _ in range(2):
        assert last.poll(take)
        assert taken == [1]
