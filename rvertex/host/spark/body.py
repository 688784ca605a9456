"""The body of a Spark task: runs a host, and further ones if its process stays (parking)."""

from __future__ import annotations

import gc
import socket
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from rstream.errors import PlainLineError, StreamEngineError, TlsError
from rstream.items.dictionaries import forget
from rvertex.host.host import Host, HostExit, HostSpec
from rvertex.host.parking import next_host
from rvertex.host.wiring import FlightWiring
from rvertex.state.memory import give_back
from rvertex.user_code.errors import ChangedCodeError, UnknownCodeError
from rvertex.user_code.unpickle import UNLOADABLE, load_shipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class SparkHostBody:
    """The function given to ``mapPartitions``; runs in the Python worker."""

    def __init__(self, spec: HostSpec, plan: bytes) -> None:
        self._spec = spec
        self._plan = plan

    def __call__(self, rows: Iterable[Any]) -> Iterator[str]:
        """Drain the task's input, run hosts, and yield how the last one ended."""
        for _ in rows:
            pass
        pa.set_cpu_count(1)  # one thread only, because a Spark task has one core
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        spec, plan = self._spec, self._plan
        while True:  # ends when the process of the last host does not wait for another
            end = _run(spec, plan, attempt)
            if not end.stays_at:
                break
            try:
                following = next_host(spec, end.stays_at, idle=_give_memory_back)
            except StreamEngineError as error:
                yield str(error)
                return
            if following is None:
                break
            spec, plan = following
        _give_memory_back()
        yield end.how


def _run(spec: HostSpec, plan: bytes, attempt: int) -> HostExit:
    try:
        # The plan comes from Spark's closure, or from the job's root
        vertices = load_shipped(plan, to_run=True)
    except (ChangedCodeError, UnknownCodeError) as error:
        return HostExit(spec.host, f"{UNLOADABLE}{error}")
    try:
        return Host(spec, vertices, FlightWiring(spec.host), attempt=attempt).run()
    except (TlsError, PlainLineError) as error:  # every other host would fail in the same way
        return HostExit(spec.host, f"{UNLOADABLE}on {socket.gethostname()}: {error}")


def _give_memory_back() -> None:
    """Return a worker's free memory to the system: Spark may keep the worker idle for hours."""
    forget()
    gc.collect()
    give_back()
