"""Windows whose bounds depend on the events of a key, as Spark SQL over unordered rows.

All columns follow from ``_vs`` and ``_ve``. The stream orders events of a key that start together;
here that order is known only through their places. Sessions and snapshots do not depend on it; a
count window that does is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.batch.temporal.lifetimes import moved
from planner.expressions.spark.casts import failure
from planner.expressions.spark.types import integer
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from collections.abc import Sequence


def over(keys: Sequence[str], more: str = "") -> str:
    """Return the SQL window of a key's rows."""
    by = f"partition by {', '.join(keys)} " if keys else ""
    return f"over ({by}{more})"


def islands(keys: Sequence[str], until: str, *, touch: bool) -> tuple[list[str], ...]:
    """Return steps that add islands: times in which a key always has an active event.

    An event is active from its start to ``until``. ``_island`` is the start of an event's island,
    ``_running`` the island's end so far. ``touch``: an event that starts exactly at an island's end
    belongs to it.
    """
    upto = f"order by {VS} range between unbounded preceding and"
    before, now = over(keys, f"{upto} 1 preceding"), over(keys, f"{upto} current row")
    begins = f"if(_before is null or _before {'<' if touch else '<='} {VS}, {VS}, null)"
    return (
        [f"{until} as _active"],
        [f"max(_active) {before} as _before", f"max(_active) {now} as _running"],
        [f"max({begins}) {now} as _island"],
    )


def cuts(longest_us: int) -> str:
    """Return SQL for the starts of an island's sessions, an array, from its events' starts."""
    nothing = "named_struct('last', cast(null as bigint), 'found', cast(array() as array<bigint>))"
    is_late = f"a.last is null or t >= {moved('a.last', longest_us)}"
    begun = "named_struct('last', t, 'found', concat(a.found, array(t)))"
    step = f"(a, t) -> if({is_late}, {begun}, a)"
    return f"aggregate(array_sort(collect_set({VS})), {nothing}, {step}, a -> a.found)"


def session_start(keys: Sequence[str]) -> str:
    """Return SQL for the start of each event's session; ``_cut`` is null within a session."""
    until = f"order by {VS} range between unbounded preceding and current row"
    return f"max(_cut) {over(keys, until)}"


def next_endpoint(keys: Sequence[str]) -> str:
    """Return SQL for the endpoint of a key after ``_vs``; rows are its distinct endpoints."""
    return f"lead({VS}) {over(keys, f'order by {VS}')}"


def number(keys: Sequence[str], count: int, order: Sequence[str]) -> str:
    """Return SQL for the number of each event's window, for count windows."""
    by = f"order by {', '.join(order)}"
    before = f"row_number() {over(keys, by)} - 1"
    return f"cast(floor(({before}) / {count}) as bigint)"


def checked_number(keys: Sequence[str], payload: Sequence[str], what: str) -> str:
    """Return SQL for :func:`number` that raises if the order of ties decides the number.

    ``what`` begins the message.
    """
    ties = over([*keys, VS])
    row = f"struct({', '.join([VE, *payload])})"
    wrong = failure(
        f"{what} that start together are on both sides of an end; their order is known to the "
        "stream only"
    )
    differ = (
        f"min(_number) {ties} <> max(_number) {ties} and min({row}) {ties} <> max({row}) {ties}"
    )
    return f"if({differ}, {wrong}, _number)"


def session_end(longest_us: int | None) -> str:
    """Return SQL for the end of a session, for a group of events with their ``_start``."""
    end = "max(_running)"
    return end if longest_us is None else f"least({end}, {moved('_start', longest_us)})"


def step_end(keys: Sequence[str], longest_us: int | None) -> str:
    """Return SQL for the end of each running result: the session's next start, or ``_until``."""
    following = f"lead({VS}) {over([*keys, '_start'], f'order by {VS}')}"
    end = "_until" if longest_us is None else f"least(_until, {moved('_start', longest_us)})"
    return f"coalesce({following}, {end})"


def after_last() -> str:
    """Return SQL for the time just after the start of the last event of a group."""
    return f"max({VS}) + {integer(1)}"
