"""OpenLineage events of jobs: what each run reads and writes, and how it ended.

Events are JSON as specified, sent by HTTP POST or appended to a file, one per line. The id of a run
is derived from the job and its start time, so a repeated event has the same id.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from jobmanager.cli.page.answers import plan_of
from jobmanager.state.job_state import OPEN_STATES
from rstream.errors import StreamEngineError
from rstream.secret_values import without_user
from rvertex.sinks.spec import name_of
from rvertex.sources.spec import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.cli.page.board import Board, SeenJob
    from planner.physical.plan import PhysicalPlan

CALL_S_MAX = 5.0
_PRODUCER = "https://pypi.org/project/streamscope"
_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_TYPES = {"finished": "COMPLETE", "failed": "FAIL", "cancelled": "ABORT", "stopped": "ABORT"}
_US_PER_S = 1_000_000
#: Seconds between two RUNNING events of a job.
RUNNING_EVERY_S = 60


class LineageExport:
    """Sends an event when a job starts, once a minute while it runs, and when it ends."""

    def __init__(self, target: str, board: Board) -> None:
        """Send events to ``target``: an http(s) URL, or a file."""
        self._target, self._board = target, board
        #: By run and type of event: the minute of the last event that was sent.
        self._sent: dict[tuple[str, str], int] = {}

    def send(self) -> None:
        """Send the events that are due. A failed event is sent again at the next call."""
        for name, job in list(self._board.jobs.items()):
            for event in events_of(name, job):
                key = event["run"]["runId"], event["eventType"]
                minute = 0
                if event["eventType"] == "RUNNING":
                    minute = job.status["written_us"] // (RUNNING_EVERY_S * _US_PER_S)
                if self._sent.get(key, -1) < minute:
                    self._put(json.dumps(event))
                    self._sent[key] = minute

    def close(self) -> None:
        """Send the remaining events."""
        self.send()

    def _put(self, event: str) -> None:
        if not self._target.startswith(("http://", "https://")):
            with open(self._target, "a", encoding="utf-8") as file:
                file.write(event + "\n")
            return
        headers = {"Content-Type": "application/json"}
        request = Request(self._target, event.encode(), headers, method="POST")
        with urlopen(request, timeout=CALL_S_MAX):
            pass


def events_of(name: str, job: SeenJob) -> Iterator[dict[str, Any]]:
    """Return the event START of a job, and then RUNNING or the event of its end."""
    try:
        plan, notices = plan_of(job.root), job.notices()
    except StreamEngineError:
        return
    if not notices:
        return
    started_us, state = notices[0][0], job.status["state"]
    yield _event(name, job.root, plan, started_us, started_us, "START")
    if state in OPEN_STATES and "written_us" in job.status:
        yield _event(name, job.root, plan, started_us, job.status["written_us"], "RUNNING")
    elif state in _TYPES:
        ended_us = job.status.get("written_us", notices[-1][0])
        yield _event(name, job.root, plan, started_us, ended_us, _TYPES[state])


def _event(
    name: str, root: str, plan: PhysicalPlan, started_us: int, at_us: int, kind: str
) -> dict[str, Any]:
    run = uuid.uuid5(uuid.NAMESPACE_URL, f"{root}#{started_us}")
    return {
        "eventType": kind,
        "eventTime": datetime.fromtimestamp(at_us / _US_PER_S, UTC).isoformat(),
        "run": {"runId": str(run)},
        "job": {"namespace": "streamscope", "name": name},
        "inputs": inputs_of(plan),
        "outputs": outputs_of(plan),
        "producer": _PRODUCER,
        "schemaURL": _SCHEMA,
    }


def inputs_of(plan: PhysicalPlan) -> list[dict[str, str]]:
    """Return the datasets that a plan reads. A topic is named with its brokers."""
    inputs = []
    for vertex in plan.vertices:
        if vertex.source is None or not vertex.source.spec.path:
            continue
        spec = vertex.source.spec
        if isinstance(spec.kind, Topic):
            servers = dict(spec.kind.config)["bootstrap.servers"]
            inputs.append({"namespace": f"kafka://{servers}", "name": spec.path})
        else:
            inputs += map(_dataset, spec.paths)
    return [dict(pair) for pair in dict.fromkeys(tuple(one.items()) for one in inputs)]


def outputs_of(plan: PhysicalPlan) -> list[dict[str, str]]:
    """Return the datasets that a plan writes: files of its outputs, and deliveries by name."""
    files = [_dataset(output.output) for output in plan.of_outputs]
    kinds = [name_of(spec).partition(":") for spec in plan.deliveries]
    return [*files, *({"namespace": kind, "name": rest or kind} for kind, _, rest in kinds)]


def _dataset(uri: str) -> dict[str, str]:
    """Return a file or folder as a dataset, without user and password."""
    scheme, mark, rest = without_user(uri).partition("://")
    if not mark:
        return {"namespace": "file", "name": scheme}
    place, _, path = rest.partition("/")
    return {"namespace": f"{scheme}://{place}" if place else scheme, "name": path and f"/{path}"}
