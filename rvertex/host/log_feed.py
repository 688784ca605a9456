"""Feeds a source vertex from live logs: reads them, decides, and has decisions written down first.

The rows of a partition are held while an entry of it is on its way to the journal, so an entry
takes effect before the first row behind it, in this life and in every later one. An instance may
use a row, or decide anything but to take a file, only within the job manager's *lease*: so long
after the time of its last report that the job manager has confirmed. It decides nothing within the
first two leases of its life: until then a predecessor that hangs may still use rows. Where the
host has closed the predecessor for it, there is none but those which that one had to wait for.

Invariants: (1) an entry is durable before it has an effect; (2) a partition is found idle only at
the position up to which all its rows were offered; (3) nothing is read that may not be offered, so
back-pressure reaches the log; (4) it never waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.items.dictionaries import batch_bytes
from rstream.types import INF_TIME
from rvertex.sources.logs.entries import LogEntry
from rvertex.sources.logs.errors import LostInputError, NeededInputError
from rvertex.sources.logs.protocol import FileLog, joined_rows
from rvertex.vertex.idle import Look, Looks, PartitionFacts, promises

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.checkpoint.intake import Intake
    from rvertex.host.environment import HostEnvironment
    from rvertex.messages import LogProgress
    from rvertex.sources.logs.entries import EntryKind
    from rvertex.sources.logs.protocol import LogReader, LogRows
    from rvertex.vertex.rvertex import RVertex

#: Least time between two looks at what has fallen silent.
DECIDE_EVERY_S = 0.05
#: Leases that a predecessor is given to end.
_LEASES_BEFORE = 2


@dataclass(slots=True)
class _Partition:
    """What the feed knows of one partition."""

    last_row_s: float
    #: Rows that were read and may not be offered yet.
    ahead: LogRows | None = None
    #: It lacks rows up to this position, and an entry says so.
    lost_until: int | None = None
    #: What the vertex had put out when rows were first found to be gone.
    lost_at: tuple[int, ...] = ()
    #: It ends here, once it has been read so far.
    closes_at: int | None = None
    #: Where it ended when this life first saw that, and whether it was read so far. Both only if
    #: logs are to be read up to their ends.
    goal: int | None = None
    was_at_end: bool = False
    #: It has read rows up to here of which one is ahead, and no clock decides them.
    clock_until: int | None = None
    #: No predecessor has read beyond; None: that is not known yet. Only if another is to join.
    settles_at: int | None = None


class LogFeed:
    """The log partitions of one instance; owned by the host's thread."""

    def __init__(
        self, vertex: RVertex, intake: Intake, env: HostEnvironment, consumed: tuple[int, ...] = ()
    ) -> None:
        """``consumed``: by output, what its reader is known to have."""
        source, log = vertex.spec.source, vertex.log
        assert source is not None
        assert log is not None
        assert source.spec.log is not None
        self._vertex, self._log, self._intake, self._env = vertex, log, intake, env
        self._spec, self._rules = source.spec, source.spec.log
        self._consumed = consumed
        self._started_s = env.clock.monotonic_s()
        self._decided_s = self._started_s
        #: How far the partitions were, for an answer of the log that is older than a decision.
        self._looks = Looks()
        #: From then on a predecessor that hangs uses no more rows.
        by_lease_s = self._started_s + _LEASES_BEFORE * env.limits.lease_s
        self._alone_s = max(env.alone_s.get(vertex.spec.id, by_lease_s), self._started_s)
        env.alone_s[vertex.spec.id] = self._alone_s
        self._partitions = [
            _Partition(self._started_s, settles_at=unit.settles_at) for unit in source.log_units
        ]
        #: Where each partition's reader goes on.
        self._read_to = [channel.position for channel in log.channels]
        self.reader: LogReader = env.open_log(source, tuple(self._read_to))
        if isinstance(self.reader, FileLog):
            self.reader.enter(log.files())
        self._has_added = bool(source.added)
        #: An entry is on its way by which added partitions join.
        self._is_joining = False
        #: When the partitions were told to end.
        self._finish_s: float | None = None

    def finish(self) -> None:
        """End every partition where its log ends by now, as soon as that may be decided.

        Not at what was read of it: a predecessor may have read more, and put out what follows.
        """
        if self._finish_s is None:
            self._finish_s = self._env.clock.monotonic_s()

    def poll(self, note_input: Callable[[int], None]) -> bool:
        """Read, decide and offer what can be now; whether anything was."""
        entries = self._intake.durable()
        if entries:
            self._take_effect(entries)
        worked = bool(entries)
        self._note_ends()
        for k in range(len(self._partitions)):
            worked = self._feed(k, note_input) or worked
        if not self._intake.is_busy and not self._vertex.is_replaying:
            self._decide()
        return worked

    def _take_effect(self, entries: tuple[LogEntry, ...]) -> None:
        for k, mine in enumerate(self._partitions):
            mine.lost_until = mine.clock_until = None
            self._catch_up(k)
        self._is_joining = False
        if isinstance(self.reader, FileLog):
            self.reader.enter([entry for entry in entries if entry.kind == "file"])

    def _feed(self, k: int, note_input: Callable[[int], None]) -> bool:
        """Offer the next rows of a partition."""
        mine, channel = self._partitions[k], self._log.channels[k]
        if self._intake.holds(k) or mine.lost_until is not None or not self._log.wants(k):
            return False
        if self._is_over(k) or self._is_joining:
            return False
        rows = mine.ahead if mine.ahead is not None else self._read(k)
        mine.ahead = rows
        if rows is None or not self._has_lease():
            return False
        limit = self._limit(k)
        if limit is not None and limit <= channel.position:
            return False
        mine.ahead = None
        if limit is not None and rows.next_position > limit:
            mine.ahead, rows = rows.beyond(limit), rows.before(limit)
        if not self._vertex.is_replaying and channel.lacks_clock(rows):
            mine.clock_until = rows.next_position
            mine.ahead = rows if mine.ahead is None else joined_rows([rows, mine.ahead])
            return False
        if rows.batch.num_rows:
            mine.last_row_s = self._env.clock.monotonic_s()
            note_input(batch_bytes(rows.batch))
        self._log.offer(k, rows)
        self._catch_up(k)
        return True

    def _limit(self, k: int) -> int | None:
        """Rows of a partition from here on are not to be offered now."""
        limit = self._log.channels[k].limit
        if not self._awaited():
            return limit
        # What comes after the predecessors comes after those that join, too.
        settles_at = self._settling(k)
        if settles_at is None:
            return self._log.channels[k].position
        return settles_at if limit is None else min(limit, settles_at)

    def _catch_up(self, k: int) -> None:
        """Read on where the partition stands: an entry may have passed over rows."""
        mine, position = self._partitions[k], self._log.channels[k].position
        if mine.ahead is not None and mine.ahead.next_position <= position:
            mine.ahead = None
        elif mine.ahead is not None:
            mine.ahead = mine.ahead.beyond(position)
        if position > self._read_to[k]:
            self._read_to[k] = position
            self.reader.skip_to(k, position)

    def _read(self, k: int) -> LogRows | None:
        try:
            rows = self.reader.read(k, self._env.limits.step_rows_max)
        except LostInputError as error:
            if self._rules.on_lost == "fail":
                raise
            mine, put_out = self._partitions[k], tuple(self._vertex.output_seqs)
            if mine.lost_at != put_out:  # what was read before comes out first
                mine.lost_at = put_out
                return None
            need = self._need(k)
            if need:
                raise NeededInputError(
                    error.log, error.partition, error.wanted, error.first, need
                ) from error
            mine.lost_until = error.first
            return None
        if rows is not None:
            self._read_to[k] = rows.next_position
        return rows

    def _is_over(self, k: int) -> bool:
        """Whether the partition was read up to its end and is read no further."""
        return self._partitions[k].was_at_end and self._finish_s is None

    def _note_ends(self) -> None:
        """See whether all was offered that the log held at some time of this life."""
        is_asked = self._env.limits.until_end and not self._vertex.is_replaying
        if not is_asked or self._intake.is_busy:
            return
        for k, (mine, channel) in enumerate(zip(self._partitions, self._log.channels, strict=True)):
            if not mine.was_at_end and mine.ahead is None:
                goal = self._end_now(k)
                mine.was_at_end = goal is not None and channel.position >= goal

    def _end_now(self, k: int) -> int | None:
        """Where the partition ended when that was first seen; None: it is not known yet."""
        if isinstance(self.reader, FileLog):  # it may have files that nobody has entered
            end = self.reader.end(k)
            return None if end is None or end.seen_s < self._started_s else end.position
        mine = self._partitions[k]
        if mine.goal is None:
            mine.goal = self.reader.closing_position(k, self._started_s)
        return mine.goal

    def _need(self, k: int) -> str:
        """Why rows of a partition that was read so far cannot be done without; or nothing."""
        if self._vertex.is_replaying:
            return f"the state of {self._vertex.spec.id} is rebuilt from them"
        if self._log.channels[k].has_pending:
            return "it is written down that the job has read some of them"
        if any(a < b for a, b in zip(self._vertex.output_seqs, self._consumed, strict=False)):
            return f"what {self._vertex.spec.id} had put out of them was used"
        return ""

    def _has_lease(self) -> bool:
        now_s = self._env.clock.monotonic_s()
        return now_s - self._env.confirmed_s <= self._env.limits.lease_s

    # ---- decisions

    def _decide(self) -> None:
        """Record the decisions that are due now, if any."""
        entries = self._files()
        now_s = self._env.clock.monotonic_s()
        if not entries and now_s >= self._alone_s and self._has_lease():
            entries = self._joins()
            self._is_joining = bool(entries)
            entries = entries or self._clocks() or self._ends() or self._losses()
            entries = entries or self._promises(now_s)
        if entries:
            self._intake.write(entries, self._env.background, self._env.wake)

    def _files(self) -> list[LogEntry]:
        if not isinstance(self.reader, FileLog) or self._finish_s is not None:
            return []
        indexes = [self._intake.next_index(k) for k in range(len(self._partitions))]
        entries = []
        for file in self.reader.found():
            k = file.partition
            if self._is_over(k):
                continue
            entry = LogEntry("file", k, indexes[k], file.position, 0, 0, file.path, file.version)
            entries.append(entry)
            indexes[k] += 1
        return entries

    def _joins(self) -> list[LogEntry]:
        """Partitions that were added take part above what any instance has released.

        What holds the vertex back was read as far as any predecessor can have read it. So none has
        got further, and nothing below is computed otherwise from now on.
        """
        awaited = self._awaited()
        if not awaited or not self._is_settled():
            return []
        time, entries = self._log.bound + 1, []
        for k in awaited:
            kind: EntryKind = "end" if time > INF_TIME else "advance"
            position = self._log.channels[k].position
            entries.append(LogEntry(kind, k, self._next(k), position, min(time, INF_TIME)))
        return entries

    def _awaited(self) -> list[int]:
        if not self._has_added:
            return []
        return [k for k, channel in enumerate(self._log.channels) if channel.is_awaited]

    def _is_settled(self) -> bool:
        """Whether a partition with the least frontier was read so far as a predecessor could."""
        found = False
        for k, channel in enumerate(self._log.channels):
            if channel.is_awaited or channel.reorder.frontier != self._log.bound:
                continue
            settles_at = self._settling(k)
            is_read = settles_at is not None and channel.position >= settles_at
            found = found or channel.is_ended or is_read
        return found

    def _settling(self, k: int) -> int | None:
        """How far a predecessor may have read: where the log ended after it had; None: unknown."""
        mine = self._partitions[k]
        if mine.settles_at is None and self._env.clock.monotonic_s() >= self._alone_s:
            mine.settles_at = self.reader.closing_position(k, self._alone_s)
        return mine.settles_at

    def _ends(self) -> list[LogEntry]:
        if self._finish_s is None or self._awaited():
            return []
        entries = []
        since_s = max(self._finish_s, self._alone_s)
        for k, (mine, channel) in enumerate(zip(self._partitions, self._log.channels, strict=True)):
            if mine.closes_at is None:
                mine.closes_at = self.reader.closing_position(k, since_s)
            is_due = mine.closes_at is not None and channel.position >= mine.closes_at
            if is_due and not channel.is_ended:
                entries.append(LogEntry("end", k, self._next(k), channel.position))
        return entries

    def _clocks(self) -> list[LogEntry]:
        """The time of the clock, if early rows wait for it."""
        now_us, made = self._env.clock.now_us(), self._log.channels
        ahead = [(k, p.clock_until) for k, p in enumerate(self._partitions)]
        return [
            made[k].clock_entry(k, self._next(k), now_us, to) for k, to in ahead if to is not None
        ]

    def _losses(self) -> list[LogEntry]:
        lost = [(k, p.lost_until) for k, p in enumerate(self._partitions)]
        at = [channel.position for channel in self._log.channels]
        return [
            LogEntry("lost", k, self._next(k), at[k], 0, to) for k, to in lost if to is not None
        ]

    def _promises(self, now_s: float) -> list[LogEntry]:
        if now_s - self._decided_s < DECIDE_EVERY_S:
            return []
        self._decided_s = now_s
        facts = self._facts(has_joined=True)
        frontiers = tuple(partition.rows_frontier for partition in facts)
        others_us = self._env.reached.get(self._vertex.spec.id)
        self._looks.note(Look(now_s, self._env.clock.now_us(), frontiers, others_us))
        found = promises(self._rules, facts, self._looks, self._spec.delay_us)
        return [
            LogEntry("advance", k, self._next(k), self._log.channels[k].position, time)
            for k, time in found.items()
        ]

    def _next(self, k: int) -> int:
        return self._intake.next_index(k)

    def _facts(self, *, has_joined: bool = False) -> list[PartitionFacts]:
        """``has_joined``: one that takes no part yet is as good as ended."""
        rows = zip(self._partitions, self._log.channels, strict=True)
        return [
            PartitionFacts(
                position=channel.position,
                frontier=channel.reorder.frontier,
                rows_frontier=channel.reorder.rows_frontier,
                last_row_s=mine.last_row_s,
                end=None if mine.ahead is not None else self.reader.end(k),
                is_ended=channel.is_ended or (has_joined and channel.is_awaited),
            )
            for k, (mine, channel) in enumerate(rows)
        ]

    def progress(self) -> tuple[LogProgress, ...]:
        """The position of each partition."""
        now_s, idle_after_s = self._env.clock.monotonic_s(), self._rules.idle_after_us / 1e6
        assert self._vertex.spec.source is not None
        units = self._vertex.spec.source.log_units
        return tuple(
            self._log.channels[k].progress(
                unit.stream,
                facts,
                lag=self._lag(k),
                state=facts.state(now_s, idle_after_s),
                at_end=facts.is_ended or self._partitions[k].was_at_end,
            )
            for k, (unit, facts) in enumerate(zip(units, self._facts(), strict=True))
        )

    def _lag(self, k: int) -> int:
        """Rows that the log has and the vertex was not given; -1: unknown."""
        lag = self.reader.lag(k)
        ahead = self._partitions[k].ahead
        if lag is None:
            return -1
        return lag if ahead is None else lag + int(ahead.batch.num_rows)

    @property
    def waiting(self) -> str:
        """What it waits for besides rows; empty if for nothing."""
        if not self._has_lease():
            return "the job manager to confirm that this instance is the one"
        return self.reader.waiting

    def close(self) -> None:
        """Stop reading."""
        self.reader.close()
