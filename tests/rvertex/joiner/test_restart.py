"""A killed joiner restarts among rows that it skipped, had joined, or that expired.

Not covered: the retention of the logs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from rstream.errors import SequenceDiscardedError
from rstream.items.batch import Items
from rstream.store.memory_blobs import MemoryBlobs
from rvertex.checkpoint.journal import Journal
from rvertex.registry.joiner.joiner import IdJoiner
from rvertex.registry.joiner.limits import JoinerLimits
from rvertex.registry.joiner.rows import JoinSpec, LogInput
from rvertex.registry.open_shard import RegistryLimits
from rvertex.registry.registry import IdRegistry
from tests.rvertex.joiner.day import HOUR, START_US, DiedError, S, Shared, SiteOutput

SEARCH = pa.schema([("q", pa.int64()), ("searched", pa.int64()), ("text", pa.int64())])
CLICK = pa.schema([("click", pa.int64()), ("q", pa.int64()), ("clicked", pa.int64())])
OUTPUT = pa.schema([*CLICK, *list(SEARCH)[1:], pa.field("unjoinable", pa.bool_())])
SPEC = JoinSpec("q", "click", "searched", "clicked", 6 * HOUR, 12 * HOUR, 20 * HOUR)


@dataclass(eq=False)
class Log:
    """Rows in memory; rows before the joiner's released number are deleted."""

    payload: pa.Schema
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    first_seq: int = 0

    def open(self, seq: int | None) -> Any:
        at = self.first_seq if seq is None else seq
        if at < self.first_seq:
            raise SequenceDiscardedError("log", at, self.first_seq)
        return Reader(self, at)

    def release(self, seq: int, _now_us: int) -> None:
        self.first_seq = max(self.first_seq, seq)


@dataclass(eq=False)
class Reader:
    log: Log
    next_seq: int

    def read_next(self, max_items: int) -> Items | None:
        first = self.next_seq
        rows = self.log.rows[first : first + max_items]
        if not rows:
            return None
        self.next_seq += len(rows)
        head = [pa.array([0] * len(rows), pa.int8()), *[pa.array([0] * len(rows), pa.int64())] * 2]
        columns = zip(self.log.payload.types, zip(*rows, strict=True), strict=True)
        arrays = [*head, *(pa.array(values, kind) for kind, values in columns)]
        return Items(
            first, pa.record_batch(arrays, ["_kind", "_vs", "_ve", *self.log.payload.names])
        )


class Claims:
    """The registry's log; ``kills``: the process dies before its next claim."""

    def __init__(self) -> None:
        self.shared, self.kills = Shared(), False

    def append(self, shard: int, data: bytes) -> int:
        if self.kills:
            raise DiedError
        return self.shared.append(shard, data)

    def read(self, shard: int, next_seq: int, _until_seq: int | None) -> list[tuple[int, bytes]]:
        return self.shared.read(shard, next_seq)

    def trim(self, shard: int, below_seq: int) -> None:
        pass

    def read_map(self) -> tuple[int, bytes] | None:
        return self.shared.map

    def write_map(self, data: bytes, version: int | None) -> bool:
        self.shared.map = (version or 0) + 1, data
        return True


class OneSite:
    """The disk of a site, and the time."""

    def __init__(self, spec: JoinSpec = SPEC, **limits: Any) -> None:
        self.spec, self.limits = spec, JoinerLimits(defer_s=0, **limits)
        self.searches, self.clicks, self.claims = Log(SEARCH), Log(CLICK), Claims()
        self.journal, self.output = MemoryBlobs({}), MemoryBlobs({})
        self.time_us = START_US

    def now_us(self) -> int:
        return self.time_us

    def monotonic_s(self) -> float:
        return self.time_us / S

    def begin(self) -> IdJoiner:
        logs = [
            LogInput(name, log.payload, at, log.open, log.release)
            for name, log, at in (
                ("searches", self.searches, "searched"),
                ("clicks", self.clicks, "clicked"),
            )
        ]
        return IdJoiner(
            self.spec,
            logs[0],
            logs[1],
            SiteOutput(self.output, OUTPUT),
            Journal(self.journal, "steps"),
            IdRegistry(self.claims, self, "r", RegistryLimits(keep_us=96 * HOUR), shards=1),
            self,
            self.limits,
            new_token="east",
        )

    def search(self, q: int, hours: int) -> None:
        self.searches.rows.append((q, START_US + hours * HOUR, q * 7))

    def click(self, click: int | None, q: int, hours: int | None) -> None:
        at = None if hours is None else START_US + hours * HOUR
        self.clicks.rows.append((click, q, at))

    def steps(self, joiner: IdJoiner, hours: int) -> None:
        """Step at this hour until there is nothing to do."""
        self.time_us = START_US + hours * HOUR
        while joiner.step():
            pass

    def killed(self, joiner: IdJoiner, hours: int) -> None:
        """Step until the process dies after a step's entry and before its claims."""
        self.claims.kills = True
        with pytest.raises(DiedError):
            self.steps(joiner, hours)
        self.claims.kills = False

    def joined(self) -> list[tuple[int, int | None]]:
        """Clicks of the output, and the texts of their searches."""
        from rstream.intake.reader import open_log

        reader, found = open_log(self.output), []
        while (items := reader.read_next(1 << 16)) is not None:
            rows = items.batch
            found += zip(*(rows.column(n).to_pylist() for n in ("click", "text")), strict=True)
        return found


def test_clicks_wait_while_no_search_has_arrived() -> None:
    site = OneSite()
    joiner = site.begin()
    site.click(1, 1, 0)
    site.steps(joiner, 30)
    assert joiner.status()["waiting"] == 1
    assert joiner.status()["unjoinable"] == joiner.status()["given_up"] == 0
    site.search(1, 0)
    site.steps(joiner, 31)
    assert site.joined() == [(1, 7)]


def test_skipped_rows_stay_skipped_after_a_restart() -> None:
    site = OneSite(replace(SPEC, on_bad_row="skip"))
    joiner = site.begin()
    site.search(1, 0)
    site.search(2, 0)
    site.click(None, 1, 0)
    site.click(5, 1, None)
    site.click(6, 1, 10_000)
    site.click(7, 1, 0)
    site.steps(joiner, 0)
    again = site.begin()
    site.click(8, 2, 0)
    site.steps(again, 1)
    assert site.joined() == [(7, 7), (8, 14)]
    assert again.status()["waiting"] == 0


@pytest.mark.parametrize("is_killed", [False, True])
def test_rows_of_a_recorded_step_are_kept(is_killed: bool) -> None:
    site = OneSite(steps_per_record=1)
    joiner = site.begin()
    site.search(1, 0)
    site.click(1, 1, 0)
    if is_killed:
        site.killed(joiner, 0)
        joiner._reported_s = -HOUR
        joiner._report()
    else:
        site.steps(joiner, 0)
        site.steps(joiner, 1)  # the needed position is reported
    for hour in (2, 3):  # including a successor's reports
        site.steps(site.begin(), hour)
        assert site.joined() == [(1, 7)]


def test_a_killed_step_has_joined_no_expired_row() -> None:
    """A killed step has no expired rows, even if a part of the store has expired and newer rows."""
    site = OneSite(steps_per_record=1)
    joiner = site.begin()
    for hours in (0, 10):
        site.search(hours, hours)
        site.steps(joiner, hours)
    site.click(1, 10, 25)
    site.steps(joiner, 25)
    site.click(2, 0, 25)
    site.click(3, 10, 25)
    site.killed(joiner, 26)
    site.steps(site.begin(), 27)
    assert site.joined() == [(1, 70), (3, 70)]
