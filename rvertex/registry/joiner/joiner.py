"""Dispatches foreign rows to their primary rows; each id is emitted by one site.

A step looks up ids in the registry, finds the primary rows, writes an entry to the journal, claims
the ids, and appends the rows whose ids it could claim to the output log. Rows without a primary row
wait and are looked up again. Which rows a step has depends on timing. The journal records them, so
a process that is killed at any moment loses no row and repeats none.

Invariants: (1) an id is claimed only by a step whose entry is durable; (2) a step begins when the
rows of the previous one are in the output. So an id that the registry knows as ours was emitted.
Source: Photon 3.2, 3.3; differs: the token survives a restart, so no claim is lost.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.errors import StoreError
from rstream.types import MIN_TIME
from rvertex.registry.errors import RegistryAwayError
from rvertex.registry.joiner.emitted import Begun, prepared
from rvertex.registry.joiner.errors import ADVICE_ON_OLD, JoinerRowError, PrimaryRowsLostError
from rvertex.registry.joiner.event_store import EventStore
from rvertex.registry.joiner.rows import LogInput, Rows, joined_schema
from rvertex.registry.joiner.steps import Step, StepLog
from rvertex.registry.joiner.waiting import Waiting
from rvertex.registry.shard import Verdict

if TYPE_CHECKING:
    from rstream.clock import Clock
    from rvertex.checkpoint.journal import Journal
    from rvertex.registry.joiner.emitted import OutputLog
    from rvertex.registry.joiner.limits import JoinerLimits
    from rvertex.registry.joiner.rows import JoinSpec
    from rvertex.registry.registry import IdRegistry
    from rvertex.state.scratch import Scratch

_log = logging.getLogger(__name__)
_US_PER_S, _TOKEN_BYTES = 1e6, 8
#: Most primary rows that a step reads.
PRIMARY_ROWS_MAX = 1 << 19
#: Seconds between two records of the rows that the joiner needs.
_REPORT_S = 30.0
#: Most rows that are read since the last entry of the journal.
_UNRECORDED_ROWS_MAX = 1 << 16


class IdJoiner:
    """See the module. One thread calls :meth:`run` or :meth:`step`; any thread may stop it."""

    def __init__(
        self,
        spec: JoinSpec,
        primary: LogInput,
        foreign: LogInput,
        output: OutputLog,
        journal: Journal,
        registry: IdRegistry,
        clock: Clock,
        limits: JoinerLimits,
        *,
        new_token: str | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        """Prepare to join. ``new_token``: names a new joiner; None: a random name."""
        self._spec, self._primary, self._foreign = spec, primary, foreign
        self._output, self._registry = output, registry
        self._steps = StepLog(journal, limits.steps_per_record)
        self._clock, self._limits = clock, limits
        self.schema = joined_schema(spec, primary, foreign)
        self._store = EventStore(primary.payload, spec.on, limits.cache_bytes, scratch)
        self._waiting = Waiting(foreign.payload, limits.retry_first_s, limits.retry_max_s)
        self._stopped = threading.Event()
        #: By kind: number of rows that this process read, emitted or dropped.
        self.counts: Counter[str] = Counter()
        self._begun: Begun | None = None
        self._newest_us = int(MIN_TIME)
        self._allowed, self._allowed_at_s = 0.0, clock.monotonic_s()
        self._open(new_token or f"joiner-{secrets.token_hex(_TOKEN_BYTES)}")

    def run(self, *, idle_s: float | None = None) -> None:
        """Join until :meth:`stop`, or until nothing was emitted or dropped for ``idle_s``.

        Raises:
            JoinerRowError: a foreign row has no id or time, or is older than the registry keeps.
            AppenderFencedError, OvertakenError: another process continues this output.
            RegistryAwayError: the registry did not answer for ``limits.away_max_s``.
        """
        active_s = answered_s = self._clock.monotonic_s()
        while not self._stopped.is_set():
            pause_s = self._limits.poll_s
            try:
                if self.step():
                    active_s, pause_s = self._clock.monotonic_s(), 0.0
                answered_s = self._clock.monotonic_s()
            except RegistryAwayError as error:
                self.counts["away"] += 1
                if self._clock.monotonic_s() - answered_s >= self._limits.away_max_s:
                    raise
                _log.warning("the joiner waits", extra={"reason": str(error)})
                pause_s = self._limits.away_s
            if idle_s is not None and self._clock.monotonic_s() - active_s >= idle_s:
                return
            self._stopped.wait(pause_s)

    def stop(self) -> None:
        """End :meth:`run` after the present step."""
        self._stopped.set()

    def close(self) -> None:
        """Close the output; the registry stays open for other joiners of this process."""
        self.stop()
        with contextlib.suppress(RegistryAwayError):  # the next process flushes
            self._registry.flush()
        self._output.close()

    def __enter__(self) -> IdJoiner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self) -> dict[str, float]:
        """Return counts since the start of this process, waiting rows, and the lag in seconds.

        ``wasted`` counts rows that were joined and whose ids another site then claimed first.
        """
        store = self._store
        names = "read joined unjoinable taken repeated old bad given_up wasted retries away"
        status: dict[str, float] = {name: self.counts[name] for name in names.split()}
        status |= {"waiting": len(self._waiting), "stored": store.rows}
        status |= {"memory_hits": store.hits, "disk_hits": store.disk_hits, "misses": store.misses}
        lag_us = max(self._clock.now_us() - self._newest_us, 0)
        return status | {"lag_s": lag_us / _US_PER_S if self.counts["read"] else 0.0}

    def step(self) -> bool:
        """Do one step; return whether a row was emitted or dropped.

        Raises:
            RegistryAwayError: the registry did not answer; the next call continues.
        """
        self._report()
        if self._begun is not None:
            self._finish()
            return True
        is_read = self._read_primary()
        self._read_foreign()
        at = self._waiting.due(self._clock.now_us(), self._rows_allowed())
        return self._dispatch(at) if len(at) else is_read

    def _open(self, new_token: str) -> None:
        """Continue the work of an earlier process, and finish its last step."""
        first = Step(new_token, self._foreign.first_seq(), 0, 0, 0, is_record=True)
        state = self._steps.open(first)
        last = self._last = state.last
        self._next_seq = self._recorded_seq = last.next_seq
        position = self._output.open_producer(last.token)
        self._epoch, self._append = position.epoch, position.next_number
        self._primary_reader = self._primary.open(state.primary_from)
        wanted = np.unique(np.concatenate([state.waiting, last.joined, last.marked]))
        rows = self._foreign.read_again(wanted)
        begun = np.union1d(last.joined, last.marked)
        is_open = len(begun) > 0 and position.next_number == last.append
        if is_open:
            self._begin_again(last, rows)
        waiting = np.isin(rows.seqs, state.waiting)
        kept = rows.take(np.flatnonzero(waiting))
        is_bad, _ = self._bad(kept, self._clock.now_us())  # an earlier process skipped these rows
        kept = kept.take(np.flatnonzero(~is_bad))
        is_marked = np.isin(kept.seqs, state.marked)
        due_us = np.full(len(kept.seqs), self._clock.now_us())
        self._waiting.add(kept.seqs, kept.rows, is_marked, due_us)
        self._foreign_reader = self._foreign.open(self._next_seq)
        oldest = wanted.min(initial=state.record_seq)
        #: The first rows that a successor reads again, in the primary log and in the foreign log.
        self._needed = state.primary_from, int(oldest)
        self._reported_s = -_REPORT_S
        next_claim = last.claim + (0 if is_open else 1)
        self._registry.resume(last.token, next_claim, has_claimed=last.claim > 0)
        self._registry.use_for(f"rows joined by {self._spec.on}, with the id {self._spec.id}")

    def _begin_again(self, last: Step, rows: Rows) -> None:
        """Prepare the step that an earlier process began."""
        while self._primary_reader.next_seq < last.primary_seq and self._read_primary():
            pass
        joined = rows.take(np.flatnonzero(np.isin(rows.seqs, last.joined)))
        marked = rows.take(np.flatnonzero(np.isin(rows.seqs, last.marked)))
        partners, at = self._store.find(joined.rows.column(self._spec.on))
        if (at < 0).any() or len(joined.seqs) < len(last.joined):
            lost = int((at < 0).sum()) + len(last.joined) - len(joined.seqs)
            raise PrimaryRowsLostError(self._primary.name, lost)
        self._begun = prepared(
            self.schema, self._spec, self._foreign, last, joined, marked, partners, at
        )

    def _report(self) -> None:
        """Report from time to time which rows are needed, so that retention keeps them."""
        now_s = self._clock.monotonic_s()
        if now_s - self._reported_s >= _REPORT_S:
            self._reported_s = now_s
            for log, seq in zip((self._primary, self._foreign), self._needed, strict=True):
                log.release(seq, self._clock.now_us())

    def _read_primary(self) -> bool:
        """Read the primary log to its end, or many rows of it; return whether there were any."""
        left = PRIMARY_ROWS_MAX
        while left > 0:  # ends: each round reads rows
            rows = self._primary.read(self._primary_reader, left)
            if rows is None:
                break
            left -= max(len(rows.seqs), 1)
            if len(rows.seqs):
                times = self._primary.times_us(rows.rows)
                self._store.add(int(rows.seqs[0]), rows.rows, times)
        return left < PRIMARY_ROWS_MAX

    def _read_foreign(self) -> None:
        """Read new rows, unless enough rows are due or too many wait."""
        limits, now_us = self._limits, self._clock.now_us()
        room = min(limits.waiting_rows_max - len(self._waiting), limits.step_rows_max)
        room -= len(self._waiting.due(now_us, limits.step_rows_max))
        while room > 0:  # ends: each round reads rows
            rows = self._foreign.read(self._foreign_reader, room)
            if rows is None:
                return
            self._next_seq = self._foreign_reader.next_seq
            room -= max(len(rows.seqs), 1)
            if len(rows.seqs):
                self.counts["read"] += len(rows.seqs)
                self._accept(rows, now_us)

    def _accept(self, rows: Rows, now_us: int) -> None:
        """Queue new rows for their first lookup. Rows that cannot be claimed are bad."""
        times = self._foreign.times_us(rows.rows)
        bad, ahead = self._bad(rows, now_us)
        if bad.any():
            if self._spec.on_bad_row == "fail":
                self._refuse(int(rows.seqs[bad][0]), bool(ahead[bad][0]))
            self.counts["bad"] += int(bad.sum())
            rows, times = rows.take(np.flatnonzero(~bad)), times[~bad]
        if len(times):
            self._newest_us = max(self._newest_us, int(times.max()))
            is_ours = self._foreign.is_of(rows.rows, self._spec.id, self._spec.share)
            due_us = now_us + np.where(is_ours, 0, int(self._limits.defer_s * _US_PER_S))
            self._waiting.add(rows.seqs, rows.rows, np.zeros(len(times), bool), due_us)

    def _bad(self, rows: Rows, now_us: int) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows cannot be claimed, and which of them have a time too far ahead."""
        times = self._foreign.times_us(rows.rows)
        ahead = times > now_us + self._registry.ahead_max_us
        is_null = self._foreign.is_null(rows.rows, self._spec.id) | (times == MIN_TIME)
        return is_null | ahead, ahead

    def _refuse(self, seq: int, is_ahead: bool) -> None:
        id_, at = self._spec.id, self._spec.foreign_at
        what = f"{at} is too far ahead of the clock" if is_ahead else f"{id_} or {at} is null"
        advice = 'correct the row, or skip such rows with on_bad_row="skip"'
        raise JoinerRowError(self._foreign.name, seq, what, advice)

    def _rows_allowed(self) -> int:
        limits = self._limits
        if limits.rows_per_s_max is None:
            return limits.step_rows_max
        now_s = self._clock.monotonic_s()
        earned = (now_s - self._allowed_at_s) * limits.rows_per_s_max
        self._allowed_at_s = now_s
        self._allowed = min(self._allowed + earned, max(limits.rows_per_s_max, 1.0))
        return min(int(self._allowed), limits.step_rows_max)

    def _dispatch(self, at: np.ndarray) -> bool:
        """Join as many of the waiting rows at these positions as have a primary row."""
        spec, waiting = self._spec, self._waiting
        rows = Rows(waiting.seqs[at], waiting.rows.take(pa.array(at)))
        times = self._foreign.times_us(rows.rows)
        keys = self._foreign.keys(rows.rows, spec.id)
        verdicts = self._registry.look_up(self._last.token, keys, times.tolist())
        self._allowed -= len(at)
        is_open = self._open_rows(rows, keys, verdicts)
        place = np.full(len(at), -1)
        partners, place[is_open] = self._store.find(
            rows.rows.column(spec.on).filter(pa.array(is_open))
        )
        is_joined = is_open & (place >= 0)
        is_missing = is_open & (place < 0)
        waited_us = self._waited_us(times)
        is_marked = waiting.is_marked[at]
        marks = is_missing & ~is_marked & (waited_us > spec.unjoinable_after_us)
        gives_up = is_missing & (waited_us > spec.unjoinable_after_us + spec.retry_us)
        waits = is_missing & ~gives_up
        joined, marked = (rows.take(np.flatnonzero(some)) for some in (is_joined, marks))
        done = at[~waits]
        self._record(joined, marked, done, at[marks])
        self.counts["given_up"] += int(gives_up.sum())
        self.counts["retries"] += int(waits.sum())
        if len(joined.seqs) or len(marked.seqs):
            log, step, at_found = self._foreign, self._last, place[is_joined]
            self._begun = prepared(self.schema, spec, log, step, joined, marked, partners, at_found)
        waiting.is_marked[at[marks]] = True
        waiting.postpone(at[waits], self._clock.now_us())
        waiting.remove(done)
        self._store.expire(self._newest_us - spec.keep_us)
        if self._begun is not None:
            self._finish()
        return bool(len(done) or marks.any())

    def _waited_us(self, times: np.ndarray) -> np.ndarray:
        """Return how far the primary log is ahead of these times, us; 0 while it has no time."""
        newest_us = min(self._store.newest_us, self._clock.now_us())
        return np.zeros_like(times) if newest_us == MIN_TIME else newest_us - times

    def _open_rows(
        self, rows: Rows, keys: list[bytes], verdicts: list[Verdict | None]
    ) -> np.ndarray:
        """Return which rows to join: not claimed, not too old, and not repeated in the step."""
        first: dict[bytes, int] = {}
        is_first = np.array([first.setdefault(key, n) == n for n, key in enumerate(keys)])
        if Verdict.OLD in verdicts:
            self._check_old(int(rows.seqs[verdicts.index(Verdict.OLD)]))
        counts = Counter(verdicts)
        self.counts["taken"] += counts[Verdict.TAKEN]
        self.counts["old"] += counts[Verdict.OLD]
        is_open = np.array([verdict is None for verdict in verdicts])
        self.counts["repeated"] += counts[Verdict.OURS] + int((is_open & ~is_first).sum())
        kept: np.ndarray = is_open & is_first
        return kept

    def _check_old(self, seq: int) -> None:
        if self._spec.on_old == "fail":
            reason = "it is older than the registry keeps"
            raise JoinerRowError(self._foreign.name, seq, reason, ADVICE_ON_OLD)

    def _record(self, joined: Rows, marked: Rows, done: np.ndarray, marks: np.ndarray) -> None:
        """Write the entry of a step, if it emits rows or many were read since the last entry."""
        is_empty = not len(joined.seqs) and not len(marked.seqs)
        if is_empty and self._next_seq - self._recorded_seq < _UNRECORDED_ROWS_MAX:
            return
        step = Step(
            self._last.token,
            self._next_seq,
            self._append,
            self._last.claim + 1,
            self._primary_reader.next_seq,
            joined.seqs,
            marked.seqs,
        )
        if self._steps.wants_record:
            step = self._as_record(step, done, marks)
        self._steps.append(step)
        self._last, self._recorded_seq = step, self._next_seq

    def _as_record(self, step: Step, done: np.ndarray, marks: np.ndarray) -> Step:
        waiting = self._waiting
        stays = np.ones(len(waiting), bool)
        stays[done] = False
        is_marked = waiting.is_marked.copy()
        is_marked[marks] = True
        first = self._store.first_seq
        primary_from = step.primary_seq if first is None else first
        # A successor also reads the rows of this step, because they still wait here.
        self._needed = primary_from, int(waiting.seqs.min(initial=step.next_seq))
        return replace(
            step,
            is_record=True,
            waiting=waiting.seqs[stays],
            waiting_marked=waiting.seqs[stays & is_marked],
            primary_from=primary_from,
        )

    def _finish(self) -> None:
        """Claim the ids of the begun step, and append the rows whose ids were claimed."""
        begun = self._begun
        assert begun is not None
        token, next_number = begun.step.token, begun.step.claim + 1
        verdicts = self._registry.claim(token, begun.keys, begun.times_us, next_number)
        if Verdict.OLD in verdicts:
            seqs = np.concatenate([begun.step.joined, begun.step.marked])
            self._check_old(int(seqs[verdicts.index(Verdict.OLD)]))
        ours = np.array([verdict is Verdict.OURS for verdict in verdicts])
        if ours.any():
            rows = begun.rows.filter(pa.array(ours))
            try:
                number = begun.step.append
                self._output.append(rows, producer=token, epoch=self._epoch, number=number)
            except StoreError as error:  # the append may be durable, so repeat it
                raise RegistryAwayError("output", str(error)) from error
            self._append = begun.step.append + 1
        self._registry.delivered(token, next_number)
        joined = len(begun.step.joined)
        self.counts["joined"] += int(ours[:joined].sum())
        self.counts["unjoinable"] += int(ours[joined:].sum())
        self.counts["wasted"] += joined - int(ours[:joined].sum())
        self._begun = None
