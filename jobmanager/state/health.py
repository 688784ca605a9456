"""The health of a running job, in addition to its state, with the reasons. Pure.

The health is ``ok``, ``waiting`` (for something that recovers by itself, such as a broker) or
``degraded`` (a person has to act). A reason that is ``ok`` only explains why event time does not
advance. Each function in :data:`RULES` checks a status for one condition, and yields a sentence
with advice. The progress line, ``status``, ``list``, ``logs``, JSON output and exit statuses all
use the health from here.

Invariant: the same status gives the same reasons. :class:`HealthBook` adds when each one began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from jobmanager.state.job_state import OPEN_STATES
from rstream.errors import NO_ROOM_ADVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Health = Literal["ok", "waiting", "degraded"]
Status = dict[str, Any]
_GRAVEST_FIRST = ("degraded", "waiting", "ok")
_US_PER_S = 1_000_000
#: A partition or operator that holds event time back becomes a reason only after it has done so for
#: this time, s. Before that it changes often.
HELD_S_MIN = 2.0
#: A source may wait for its broker or its job manager for this time, s, before this is a reason.
SOURCE_S_MIN = 5.0
#: Calls of a lookup are slow if the 99th percentile reaches the first limit, s. A running call is
#: silent from the second age on, s.
SLOW_CALL_S, SILENT_CALL_S = 0.1, 5.0
#: The advice for each word in the message of a store's error.
_STORE_ADVICE = {
    "No space left": "free space there; the job continues automatically",
    "Disk quota": "free space there; the job continues automatically",
    "File too large": "the job continues automatically when the limit is raised",
    "Permission": "let the user of the job write there; the job continues automatically",
    "Access Denied": "let the user of the job write there; the job continues automatically",
    "Read-only": "make the file system writable; the job continues automatically",
    "no checkpoint is deleted": "put the file back from a copy, or delete its folder",
}
_STORE_IS_AWAY = "the job continues automatically when the store answers"

#: What a job waits for that has stopped at a cut, and continues after its change.
CHANGE = "a change of the job"


@dataclass(frozen=True, slots=True)
class Reason:
    """One condition that affects the health of a job."""

    health: Health
    #: Name of the condition. It stays the same while the words of ``reason`` change.
    kind: str
    #: Name of the affected delivery, vertex or other object.
    about: str
    #: A sentence without its full stop.
    reason: str
    #: What a person should do; empty: nothing.
    advice: str = ""
    #: The reason counts only after the condition has lasted for this time, s.
    lasts_s: float = 0.0


def reasons_of(status: Status) -> list[Reason]:
    """Return all reasons, the gravest first."""
    reasons = [reason for rule in RULES for reason in rule(status)]
    return sorted(reasons, key=lambda reason: _GRAVEST_FIRST.index(reason.health))


def health_of(reasons: Iterable[Mapping[str, Any]]) -> Health:
    """Return the gravest health among the reasons of a status."""
    kinds = {str(reason["health"]) for reason in reasons}
    return "degraded" if "degraded" in kinds else "waiting" if "waiting" in kinds else "ok"


class HealthBook:
    """Remembers when each reason began."""

    def __init__(self) -> None:
        self._since_us: dict[tuple[str, str], int] = {}

    def look(self, status: Status, now_us: int) -> Status:
        """Return the fields ``health`` and ``reasons`` for a status."""
        reasons = reasons_of(status)
        since_us = self._since_us
        self._since_us = {
            (r.kind, r.about): since_us.get((r.kind, r.about), now_us) for r in reasons
        }
        lasting = [
            (reason, since)
            for reason in reasons
            if now_us - (since := self._since_us[reason.kind, reason.about])
            >= reason.lasts_s * _US_PER_S
        ]
        return shown(lasting)


def shown(found: Iterable[tuple[Reason, int | None]]) -> Status:
    """Return the fields ``health`` and ``reasons``, from reasons with their start times, us."""
    reasons = [
        {
            "health": reason.health,
            "kind": reason.kind,
            "about": reason.about,
            "reason": reason.reason,
            "advice": reason.advice,
            "since_us": since_us,
        }
        for reason, since_us in found
    ]
    return {"health": health_of(reasons), "reasons": reasons}


def with_health(status: Status) -> Status:
    """Return a status with its health. Health noted by the job manager stays if the state does."""
    if "health" in status and status["state"] in OPEN_STATES:
        return status
    return {**status, **shown((reason, None) for reason in reasons_of(status))}


def health_line(status: Status) -> str:
    """Return one line ``degraded: ...`` or ``waiting: ...`` with the first reason.

    If the health is ``ok``, the line names what holds event time back; empty if nothing but an open
    window does.
    """
    windows = {row["reason"] for row in status.get("held", ()) if row.get("is_window")}
    reasons = [r for r in with_health(status)["reasons"] if r["reason"] not in windows]
    if not reasons:
        return ""
    first, *others = reasons
    more = f" (and {len(others)} more, see jobmanager status)" if others else ""
    return f"{reason_text(first)}{more}"


def reason_text(reason: Mapping[str, Any]) -> str:
    """Return a reason as text for people, with its advice."""
    kind = "" if reason["health"] == "ok" else f"{reason['health']}: "
    return f"{kind}{reason['reason']}"


# ---- the conditions


def _has_ended_badly(status: Status) -> Iterator[Reason]:
    """Yield a reason for a job that failed, for readers of the health who ignore the state."""
    if status["state"] in ("failed", "interrupted", "broken", "unknown"):
        yield Reason("degraded", "state", "job", status.get("error") or status["state"])


def _dead_deliveries(status: Status) -> Iterator[Reason]:
    for row in status.get("deliveries", ()):
        if row["state"] == "failed":
            yield Reason(
                "degraded",
                "delivery ended",
                _delivery(row),
                f"the delivery {_delivery(row)} has ended: {row['error']}",
                f"after the correction: jobmanager deliver {status.get('root', 'ROOT')} --retry",
            )


def _refused_rows(status: Status) -> Iterator[Reason]:
    for row in status.get("deliveries", ()):
        if row.get("refused") and status["state"] in OPEN_STATES:
            rows = "1 row" if row["refused"] == 1 else f"{row['refused']:,} rows"
            yield Reason(
                "degraded",
                "rows refused",
                _delivery(row),
                f"the destination refused {rows} of the delivery {_delivery(row)}",
                f"read them and the reasons: ss.read_dead_letters({status.get('root', 'ROOT')!r}, "
                f"{row['delivery']!r})",
            )


#: A delivery that has been connecting for longer than this, s, is reported.
OPENS_S_MAX = 2.0


def _failing_deliveries(status: Status) -> Iterator[Reason]:
    for row in status.get("deliveries", ()):
        if row["error"] and row["state"] in ("opening", "checking", "delivering", "waiting"):
            yield Reason(
                "waiting",
                "delivery waits",
                _delivery(row),
                f"the delivery {_delivery(row)} waits for its destination: {row['error']}",
                "it is retried automatically, at least every 10 s",
            )
        elif row["state"] == "opening":  # a wrong address takes 20 s to fail
            yield Reason(
                "ok",
                "delivery opens",
                _delivery(row),
                f"the delivery {_delivery(row)} connects to its destination",
                lasts_s=OPENS_S_MAX,
            )


def _delivery(row: Status) -> str:
    return f"{row['delivery']}, partition {row['partition']}"


def _no_progress(status: Status) -> Iterator[Reason]:
    """Yield a reason per host or vertex that is replaced repeatedly. A single time is normal."""
    if status["state"] not in OPEN_STATES:
        return
    # Vertices restart when their host is lost, so only the host is reported.
    kind = "losses" if status.get("losses") else "failing"
    for row in status.get(kind, ()):
        name, count = row.get("host") or row["vertex"], row["count"]
        times = "once" if count == 1 else f"{count} times"
        yield Reason(
            "waiting" if count == 1 else "degraded",
            kind,
            name,
            f"{name} was restarted {times} without progress; last error: {status['trouble']}",
        )


def _store_away(status: Status) -> Iterator[Reason]:
    text = status.get("waiting", "")
    if text == CHANGE and status["state"] in OPEN_STATES:
        yield Reason("waiting", "change", "job", f"waits for {CHANGE}")
    elif text and status["state"] in OPEN_STATES:
        advice = next((a for word, a in _STORE_ADVICE.items() if word in text), _STORE_IS_AWAY)
        # Errors of stores begin with "store:" as well.
        what = text.replace("store: store: ", "store: ")
        # The job has not ended, so this advice does not apply.
        what = what.removesuffix(NO_ROOM_ADVICE)
        yield Reason("waiting", "store", "job", f"waits for the {what}", advice)


def _silent_destinations(status: Status) -> Iterator[Reason]:
    """Yield a reason per delivery whose destination does not return from a call."""
    for row in status.get("deliveries", ()):
        if status["state"] in OPEN_STATES and row.get("call_s", 0) >= SILENT_CALL_S:
            yield Reason(
                "waiting",
                "slow destination",
                _delivery(row),
                f"the destination of the delivery {_delivery(row)} has not answered for "
                f"{row['call_s']:.0f} s: {row['lag_items']:,} items are left",
                "see whether it is overloaded or waits for a lock; make a slow function faster",
            )


def _sources_away(status: Status) -> Iterator[Reason]:
    if status["state"] not in OPEN_STATES:
        return
    # While a host is in a long step, its vertices cannot report that they have stopped waiting.
    busy = {host["host"] for host in status.get("hosts", ()) if host.get("busy")}
    for row in status.get("vertices", ()):
        if row.get("waiting") and row.get("host") not in busy:
            what = f"{row['vertex']} waits for {row['waiting']}"
            yield Reason("waiting", "source", row["vertex"], what, lasts_s=SOURCE_S_MIN)


def _time_held(status: Status) -> Iterator[Reason]:
    if status["state"] not in OPEN_STATES:
        return
    for row in status.get("held", ()):
        yield Reason(
            row["health"],
            "time held",
            row.get("about") or f"{row['vertex']} at {row['time_us']}",
            row["reason"],
            row["advice"],
            lasts_s=HELD_S_MIN,
        )


def _odd_times(status: Status) -> Iterator[Reason]:
    """Yield a reason per source with implausible times.

    Until a person corrects the data or the query, rows are late or in wrong windows.
    """
    if status["state"] in OPEN_STATES:
        for row in status.get("odd_times", ()):
            about = f"{row['source']} {row['kind']}"
            yield Reason("degraded", "odd times", about, row["reason"], row["advice"])


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def _slow_calls(status: Status) -> Iterator[Reason]:
    """Yield a reason per lookup whose calls are slow or do not return."""
    if status["state"] not in OPEN_STATES:
        return
    for row in status.get("calls", ()):
        name, oldest_s, p99_s = row["function"], row["oldest_us"] / 1e6, row["p99_us"] / 1e6
        is_silent = oldest_s >= SILENT_CALL_S
        if not is_silent and (p99_s < SLOW_CALL_S or not row["running"]):
            continue
        last = f"has not answered for {oldest_s:.0f} s" if is_silent else "is slow"
        failed = f", {row['failures']:,} failed" if row["failures"] else ""
        yield Reason(
            "waiting" if is_silent else "ok",
            "slow calls",
            f"{name} in {row['vertex']}",
            f"the lookup {name} in {row['vertex']} {last}: {_calls(row['running'])} in progress, "
            f"{row['calls']:,} made{failed}, median {row['median_us'] / 1e6:.2f} s, "
            f"p99 {p99_s:.2f} s",
            "raise concurrency=, or use batch= or cache=; timeout= limits each attempt",
            lasts_s=HELD_S_MIN,
        )


#: The conditions. Reasons of equal gravity are shown in this order.
RULES: tuple[Callable[[Status], Iterator[Reason]], ...] = (
    _has_ended_badly,
    _dead_deliveries,
    _no_progress,
    _store_away,
    _failing_deliveries,
    _silent_destinations,
    _sources_away,
    _odd_times,
    _refused_rows,
    _slow_calls,
    _time_held,
)
