"""Feeds a source vertex from live logs; journals each decision before it takes effect.

While a decision (such as: a partition is idle) is being journaled, rows of its partition are not
offered. So the entry takes effect before the first row after it, in this run and in every replay.
An instance has a *lease* for a limited time after its last report that the job manager confirmed.
Without a lease it offers no rows, and the only decision that it makes is to add a new file. The
same decision is the only one in its first two lease times, because a previous instance that hangs
may still use rows. If the previous instance was on this host, it is closed. Then the new instance
waits only until the first two lease times of the previous one are over.

Invariants: (1) an entry is durable before it takes effect; (2) a partition is declared idle only
after all its rows up to that position were offered; (3) no row is read that must not be offered, so
back-pressure reaches the log; (4) no call blocks.
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

#: Least seconds between two checks for idle partitions.
DECIDE_EVERY_S = 0.05
#: After this many lease times without a confirmed report, a previous instance uses no more rows.
_LEASES_BEFORE = 2


@dataclass(slots=True)
class _Partition:
    """The feed's state of one partition."""

    last_row_s: float
    #: Rows that were read but must not be offered yet.
    ahead: LogRows | None = None
    #: The log has deleted the rows below this position; a "lost" entry is due. None: no rows.
    lost_until: int | None = None
    #: Output seqs of the vertex when the feed first noticed that rows are deleted.
    lost_at: tuple[int, ...] = ()
    #: Position at which the partition ends after a request to finish; None: unknown.
    closes_at: int | None = None
    #: With ``until_end`` only: the log's end at the first request, and whether it was reached.
    goal: int | None = None
    was_at_end: bool = False
    #: A row before this position is too far in the future; a "clock" entry is due.
    clock_until: int | None = None
    #: No earlier instance read beyond it; None: unknown yet. Used while added partitions join.
    settles_at: int | None = None


class LogFeed:
    """The log partitions of one instance; owned by the host's thread."""

    def __init__(
        self, vertex: RVertex, intake: Intake, env: HostEnvironment, consumed: tuple[int, ...] = ()
    ) -> None:
        """Start; ``consumed``: per output, the seq up to which its reader has consumed it."""
        source, log = vertex.spec.source, vertex.log
        assert source is not None
        assert log is not None
        assert source.spec.live is not None
        self._vertex, self._log, self._intake, self._env = vertex, log, intake, env
        self._spec, self._rules = source.spec, source.spec.live
        self._consumed = consumed
        self._started_s = env.clock.monotonic_s()
        self._decided_s = self._started_s
        #: Recent frontiers, since the log's report of its end refers to an earlier moment.
        self._looks = Looks()
        #: From this time on, monotonic seconds, a previous instance that hangs uses no more rows.
        by_lease_s = self._started_s + _LEASES_BEFORE * env.limits.lease_s
        self._alone_s = max(env.alone_s.get(vertex.spec.id, by_lease_s), self._started_s)
        env.alone_s[vertex.spec.id] = self._alone_s
        self._partitions = [
            _Partition(self._started_s, settles_at=unit.settles_at) for unit in source.log_units
        ]
        #: Per partition, the next position to read.
        self._read_to = [channel.position for channel in log.channels]
        self.reader: LogReader = env.open_log(source, tuple(self._read_to))
        if isinstance(self.reader, FileLog):
            self.reader.enter(log.files())
        self._has_added = bool(source.added)
        #: Whether the entry that lets added partitions join is being journaled.
        self._is_joining = False
        #: When ``finish`` was called, monotonic seconds; None: not called.
        self._finish_s: float | None = None

    def finish(self) -> None:
        """End every partition at the log's current end, as soon as that end may be journaled.

        Not at the read positions: an earlier instance may have read more and emitted its results.
        """
        if self._finish_s is None:
            self._finish_s = self._env.clock.monotonic_s()

    def poll(self, note_input: Callable[[int], None]) -> bool:
        """Read, decide and offer rows as far as possible now; return whether there was work."""
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
        for k, part in enumerate(self._partitions):
            part.lost_until = part.clock_until = None
            self._catch_up(k)
        self._is_joining = False
        if isinstance(self.reader, FileLog):
            self.reader.enter([entry for entry in entries if entry.kind == "file"])

    def _feed(self, k: int, note_input: Callable[[int], None]) -> bool:
        """Offer the next rows of partition ``k`` to the vertex."""
        part, channel = self._partitions[k], self._log.channels[k]
        if self._intake.holds(k) or part.lost_until is not None or not self._log.wants(k):
            return False
        if self._is_over(k) or self._is_joining:
            return False
        rows = part.ahead if part.ahead is not None else self._read(k)
        part.ahead = rows
        if rows is None or not self._has_lease():
            return False
        limit = self._limit(k)
        if limit is not None and limit <= channel.position:
            return False
        part.ahead = None
        if limit is not None and rows.next_position > limit:
            part.ahead, rows = rows.beyond(limit), rows.before(limit)
        if not self._vertex.is_replaying and channel.lacks_clock(rows):
            part.clock_until = rows.next_position
            part.ahead = rows if part.ahead is None else joined_rows([rows, part.ahead])
            return False
        if rows.batch.num_rows:
            part.last_row_s = self._env.clock.monotonic_s()
            note_input(batch_bytes(rows.batch))
        self._log.offer(k, rows)
        self._catch_up(k)
        return True

    def _limit(self, k: int) -> int | None:
        """Return the position from which no row of partition ``k`` may be offered, or None."""
        limit = self._log.channels[k].limit
        if not self._awaited():
            return limit
        # Rows that no earlier instance has read must wait until the added partitions have joined.
        settles_at = self._settling(k)
        if settles_at is None:
            return self._log.channels[k].position
        return settles_at if limit is None else min(limit, settles_at)

    def _catch_up(self, k: int) -> None:
        """Move the reader to the position of partition ``k``: an entry may have skipped rows."""
        part, position = self._partitions[k], self._log.channels[k].position
        if part.ahead is not None and part.ahead.next_position <= position:
            part.ahead = None
        elif part.ahead is not None:
            part.ahead = part.ahead.beyond(position)
        if position > self._read_to[k]:
            self._read_to[k] = position
            self.reader.skip_to(k, position)

    def _read(self, k: int) -> LogRows | None:
        try:
            rows = self.reader.read(k, self._env.limits.step_rows_max)
        except LostInputError as error:
            if self._rules.on_lost == "fail":
                raise
            part, output_seqs = self._partitions[k], tuple(self._vertex.output_seqs)
            if part.lost_at != output_seqs:  # first emit the rows that were read before
                part.lost_at = output_seqs
                return None
            need = self._need(k)
            if need:
                raise NeededInputError(
                    error.log, error.partition, error.wanted, error.first, need
                ) from error
            part.lost_until = error.first
            return None
        if rows is not None:
            self._read_to[k] = rows.next_position
        return rows

    def _is_over(self, k: int) -> bool:
        """Return whether partition ``k`` was read to its end, and no rows can follow."""
        return self._partitions[k].was_at_end and self._finish_s is None

    def _note_ends(self) -> None:
        """Record partitions that have been read up to the end that the log had at the start."""
        is_due = self._env.limits.until_end and not self._vertex.is_replaying
        if not is_due or self._intake.is_busy:
            return
        for k, (part, channel) in enumerate(zip(self._partitions, self._log.channels, strict=True)):
            if not part.was_at_end and part.ahead is None:
                goal = self._end_now(k)
                part.was_at_end = goal is not None and channel.position >= goal

    def _end_now(self, k: int) -> int | None:
        """Return the end of partition ``k`` when this instance first requested it, or None."""
        if isinstance(self.reader, FileLog):  # the log may have files that no entry has added yet
            end = self.reader.end(k)
            return None if end is None or end.reported_s < self._started_s else end.position
        part = self._partitions[k]
        if part.goal is None:
            part.goal = self.reader.closing_position(k, self._started_s)
        return part.goal

    def _need(self, k: int) -> str:
        """Return why deleted rows of partition ``k`` must not be skipped; "" if they may be."""
        if self._vertex.is_replaying:
            return f"the state of {self._vertex.spec.id} is rebuilt from them"
        if self._log.channels[k].has_pending:
            return "the job has recorded that it read some of them"
        if any(a < b for a, b in zip(self._vertex.output_seqs, self._consumed, strict=False)):
            return f"the output of {self._vertex.spec.id} from these rows was used"
        return ""

    def _has_lease(self) -> bool:
        now_s = self._env.clock.monotonic_s()
        return now_s - self._env.confirmed_s <= self._env.limits.lease_s

    # ---- decisions that are journaled

    def _decide(self) -> None:
        """Journal the decisions that are due now, if any."""
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
        if not isinstance(self.reader, FileLog):
            return []
        indexes = [self._intake.next_index(k) for k in range(len(self._partitions))]
        entries = []
        for file in self.reader.found():
            k = file.partition
            if self._is_over(k) or self._log.channels[k].is_ended:
                continue
            entry = LogEntry("file", k, indexes[k], file.position, 0, 0, file.path, file.version)
            entries.append(entry)
            indexes[k] += 1
        return entries

    def _joins(self) -> list[LogEntry]:
        """Return journal entries that let added partitions join, above all rows released so far.

        The partition with the least frontier must have been read as far as by any earlier instance.
        Then none released more, and rows below are recomputed in the same order.
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
        channels = enumerate(self._log.channels)
        return [k for k, channel in channels if self._has_added and channel.is_awaited]

    def _is_settled(self) -> bool:
        """Return whether no earlier instance read more of a partition with the least frontier."""
        for k, channel in enumerate(self._log.channels):
            if channel.is_awaited or channel.reorder.frontier != self._log.bound:
                continue
            settles_at = self._settling(k)
            if channel.is_ended or (settles_at is not None and channel.position >= settles_at):
                return True
        return False

    def _settling(self, k: int) -> int | None:
        """Return the log's end after earlier instances stopped reading it; None: unknown yet."""
        part = self._partitions[k]
        if part.settles_at is None and self._env.clock.monotonic_s() >= self._alone_s:
            part.settles_at = self.reader.closing_position(k, self._alone_s)
        return part.settles_at

    def _ends(self) -> list[LogEntry]:
        if self._finish_s is None or self._awaited():
            return []
        entries = []
        since_s = max(self._finish_s, self._alone_s)
        if isinstance(self.reader, FileLog) and not self.reader.finish(since_s):
            return []
        for k, (part, channel) in enumerate(zip(self._partitions, self._log.channels, strict=True)):
            if part.closes_at is None:
                part.closes_at = self.reader.closing_position(k, since_s)
            is_due = part.closes_at is not None and channel.position >= part.closes_at
            if is_due and not channel.is_ended:
                entries.append(LogEntry("end", k, self._next(k), channel.position))
        return entries

    def _clocks(self) -> list[LogEntry]:
        """Return "clock" entries with the current time, for rows that look too early."""
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
        decided = promises(self._rules, facts, self._looks, self._spec.delay_us)
        return [
            LogEntry("advance", k, self._next(k), self._log.channels[k].position, time)
            for k, time in decided.items()
        ]

    def _next(self, k: int) -> int:
        return self._intake.next_index(k)

    def _facts(self, *, has_joined: bool = False) -> list[PartitionFacts]:
        """Return the states of partitions; ``has_joined``: those yet to join count as ended."""
        rows = zip(self._partitions, self._log.channels, strict=True)
        return [
            PartitionFacts(
                position=channel.position,
                frontier=channel.reorder.frontier,
                rows_frontier=channel.reorder.rows_frontier,
                last_row_s=part.last_row_s,
                end=None if part.ahead is not None else self.reader.end(k),
                is_ended=channel.is_ended or (has_joined and channel.is_awaited),
            )
            for k, (part, channel) in enumerate(rows)
        ]

    def progress(self) -> tuple[LogProgress, ...]:
        """Return the progress of each partition."""
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
        """Return the number of rows in the log that were not offered yet; -1: unknown."""
        lag = self.reader.lag(k)
        ahead = self._partitions[k].ahead
        if lag is None:
            return -1
        return lag if ahead is None else lag + int(ahead.batch.num_rows)

    @property
    def waiting(self) -> str:
        """Return what the source waits for besides rows, as text; empty: nothing."""
        if not self._has_lease():
            return "the job manager to confirm that this instance is the one"
        return self.reader.waiting

    def close(self) -> None:
        """Stop reading."""
        self.reader.close()
