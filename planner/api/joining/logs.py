"""Joins the rows of two growing logs outside of a job, once among several sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.durations import duration_us, positive_duration_us
from planner.errors import InvalidPlanError
from rstream.clock import SystemClock
from rstream.errors import StoreError
from rstream.intake.appender import Appender
from rstream.intake.reader import is_log, open_log
from rstream.intake.readers import report_position
from rstream.items.batch import payload_schema
from rstream.limits import AppendLimits
from rstream.log.reader import open_reader
from rstream.store.blobs import open_store
from rvertex.checkpoint.journal import Journal
from rvertex.registry.checks import checked_registry
from rvertex.registry.joiner.joiner import IdJoiner
from rvertex.registry.joiner.limits import JoinerLimits
from rvertex.registry.joiner.rows import JoinSpec, LogInput, joined_schema
from rvertex.registry.once import opened_registry

if TYPE_CHECKING:
    from planner.durations import Duration
    from rvertex.registry.joiner.rows import OnRow
    from rvertex.sinks.spec import RegistrySpec

_FOLDER = "_joiner"
_INPUTS = 2
#: The limits of the output: its only producer may be silent for any time, here 100 years.
_OUTPUT = AppendLimits(producer_silence_s=100 * 365 * 86_400.0)


def id_joiner(
    primary: str,
    foreign: str,
    to: str,
    *,
    on: str,
    id: str,
    at: str | tuple[str, str],
    unjoinable_after: Duration,
    registry: RegistrySpec,
    share: tuple[int, int] = (0, 1),
    retry: Duration = 0,
    keep: Duration = "3d",
    on_bad_row: OnRow = "fail",
    on_old: OnRow = "fail",
    limits: JoinerLimits | None = None,
) -> IdJoiner:
    """Join the rows of the log ``foreign`` with rows of the log ``primary``, by the column ``on``.

    Rows are joined as soon as both have arrived, in any order. Each ``id``, a column of
    ``foreign``, is written to the log ``to`` by only one of the sites that share ``registry``.
    ``run()`` of the result joins until ``stop()`` is called from another thread; a process that
    was killed continues where it was. The result is a context manager.

    ``at``: the column with the event time, or one for each input. A foreign row without its
    partner is written with null in the columns of ``primary`` and true in ``unjoinable`` once the
    primary log is later than the row by more than ``unjoinable_after``. If the partner arrives
    before the log is later by a further ``retry``, the row is written again, joined.
    ``keep``: primary rows are stored until they are older than the newest foreign row by this.

    ``share``: the number of this site from 0, and the number of sites, such as ``(0, 2)``. A site
    waits two seconds (``JoinerLimits.defer_s``) before it joins a row of another site's share, so
    few rows are joined twice and then dropped.

    ``on_bad_row``: for foreign rows without an id or a time. ``on_old``: for rows older than the
    registry's ``keep``. ``"fail"`` ends ``run()`` with an error; ``"skip"`` drops and counts them.
    """
    spec = _spec(on, id, at, (unjoinable_after, retry, keep), (on_bad_row, on_old), share)
    if not all(isinstance(uri, str) for uri in (primary, foreign, to)) or to in (primary, foreign):
        raise InvalidPlanError("id_joiner(primary, foreign, to): three logs, each a path or a url")
    if not isinstance(limits, JoinerLimits | None):
        raise InvalidPlanError(f"id_joiner(limits={limits!r:.80}): must be JoinerLimits(...)")
    registry = checked_registry(registry, "id_joiner")
    inputs = _input(primary, spec.primary_at, to), _input(foreign, spec.foreign_at, to)
    output = Appender(to, joined_schema(spec, *inputs), limits=_OUTPUT)
    try:
        return IdJoiner(
            spec,
            *inputs,
            output,
            Journal(open_store(to).child(_FOLDER), "steps"),
            opened_registry(registry),
            SystemClock(),
            limits or JoinerLimits(),
        )
    except BaseException:
        output.close()
        raise


def _input(uri: str, at: str, reader: str) -> LogInput:
    """Open a log, or one partition of a query's output."""
    store = open_store(uri)
    if is_log(store):

        def tell(seq: int, now_us: int) -> None:
            report_position(store, f"joiner {reader}", seq, now_us)

        return LogInput(uri, open_log(store).payload, at, lambda seq: open_log(store, seq), tell)
    schema = open_reader(store).read_schema()
    if schema is None:
        raise StoreError(uri, "there is no log and no output of a query")
    return LogInput(uri, payload_schema(schema), at, lambda seq: open_reader(store, seq))


def _spec(
    on: str,
    id_: str,
    at: str | tuple[str, str],
    times: tuple[Duration, Duration, Duration],
    choices: tuple[OnRow, OnRow],
    share: tuple[int, int],
) -> JoinSpec:
    """Check the arguments of :func:`id_joiner`."""
    times_at = (at, at) if isinstance(at, str) else at
    is_pair = isinstance(times_at, list | tuple) and len(times_at) == _INPUTS
    if not is_pair or not all(isinstance(name, str) for name in (on, id_, *times_at)):
        reason = "on and id must be names of columns, and at a name or a pair of names"
        raise InvalidPlanError(f"id_joiner(on={on!r}, id={id_!r}, at={at!r}): {reason}")
    is_pair = isinstance(share, list | tuple) and [type(n) for n in share] == [int, int]
    if not is_pair or not 0 <= share[0] < share[1]:
        raise InvalidPlanError(
            f"id_joiner(share={share!r}): must be the number of this site, from 0, and the number "
            "of sites"
        )
    for name, choice in zip(("on_bad_row", "on_old"), choices, strict=True):
        if choice not in ("fail", "skip"):
            raise InvalidPlanError(f"id_joiner({name}={choice!r}): 'fail' or 'skip'")
    retry_us = duration_us(times[1], what="retry")
    if retry_us < 0:
        raise InvalidPlanError(f"id_joiner(retry={times[1]!r}): must be 0 or more")
    after_us = positive_duration_us(times[0], what="unjoinable_after")
    keep_us = positive_duration_us(times[2], what="keep")
    return JoinSpec(on, id_, *times_at, after_us, retry_us, keep_us, *choices, (share[0], share[1]))
