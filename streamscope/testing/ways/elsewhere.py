"""Runs a query on "another machine": another process, hash seed, time zone, and a later date.

Code that iterates over a set of strings, reads a clock or uses local time has another result there.
The process starts once per test session and ends with it. Requests and responses are pickles over
its standard input and output, which only the parent process can access. It forks for each request
before it imports any code of the user, so each run begins with empty caches and globals.
"""

from __future__ import annotations

import atexit
import datetime
import functools
import os
import pickle
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any

from rvertex.user_code.code import UserCode
from rvertex.user_code.pickled import pickled
from streamscope.testing.runs import answer_of

if TYPE_CHECKING:
    from streamscope.testing.plan_run import Schedule
    from streamscope.testing.runs import Answer, Feeds

#: How far the clocks of the other process are ahead.
LATER = datetime.timedelta(days=400, hours=7)
_ENVIRONMENT = {
    "PYTHONHASHSEED": "20260714",
    "TZ": "Pacific/Kiritimati",
    **dict.fromkeys(("LANG", "LC_ALL"), "C"),
    **dict.fromkeys(("USER", "LOGNAME", "HOSTNAME"), "elsewhere"),
}
_LENGTH_BYTES = 8


def has_user_code(plan: bytes) -> bool:
    """Return whether a pickled plan has user code."""
    return UserCode.__module__.rpartition(".")[0].encode() in plan


def answer_elsewhere(plan: bytes, feeds: Feeds, schedule: Schedule) -> Answer:
    """Run a plan in the other process, with new copies of the user's modules; return its result.

    ``plan``: pickled before its first run, because a pickle has the globals of a main module.

    Raises:
        Exception: the error that the query raised there.
    """
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, pickled((sys.path, pickled((plan, feeds, schedule)))))
        found = pickle.loads(_receive(process.stdout))
    except (BrokenPipeError, EOFError):
        _process.cache_clear()
        raise RuntimeError("the process of another machine has ended; see its messages") from None
    if isinstance(found, BaseException):
        raise found
    answer: Answer = found
    return answer


@functools.cache
def _process() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-c", f"from {__name__} import main; main()"]
    path = os.pathsep.join([*filter(None, sys.path)])
    process = subprocess.Popen(
        command,
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    process.wait()


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    size = pipe.read(_LENGTH_BYTES)
    if len(size) < _LENGTH_BYTES:
        raise EOFError
    return pipe.read(int.from_bytes(size, "big"))


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Run plans for the parent, each in a new fork, until it closes the pipe."""
    while True:  # ends with the parent process, or when the parent closes the pipe
        try:
            path, request = pickle.loads(_receive(requests))
        except EOFError:
            return
        child = os.fork()
        if child == 0:
            sys.path[:] = path
            _send(answers, _answer(request))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            _send(answers, pickled(RuntimeError("the process of another machine has ended")))


def _answer(request: bytes) -> bytes:
    """Run a plan; return its result, or the error that the query raised."""
    try:
        plan, feeds, schedule = pickle.loads(request)
        return pickled(answer_of(pickle.loads(plan), feeds, schedule))
    except Exception as error:
        return _error(error)


def _error(error: Exception) -> bytes:
    try:
        data = pickled(error)
        pickle.loads(data)
    except Exception:
        data = pickled(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


class _OfRealTimes(type):
    """Makes ``isinstance`` accept real times and dates as instances of the shifted classes."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1])


def move_clocks() -> None:
    """Move all Python clocks of this process forward by ``LATER``."""
    shift_s, real = LATER.total_seconds(), {n: getattr(time, n) for n in dir(time)}
    moment = datetime.datetime

    class Moment(datetime.datetime, metaclass=_OfRealTimes):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return moment.now(tz) + LATER

        @classmethod
        def utcnow(cls) -> Any:
            return moment.now(datetime.UTC).replace(tzinfo=None) + LATER

        @classmethod
        def today(cls) -> Any:
            return moment.now() + LATER

    class Day(datetime.date, metaclass=_OfRealTimes):
        @classmethod
        def today(cls) -> Any:
            return (moment.now() + LATER).date()

    def later(seconds: float | None = None) -> Any:
        return real["localtime"](real["time"]() + shift_s if seconds is None else seconds)

    changed: dict[str, Any] = {
        "time": lambda: real["time"]() + shift_s,
        "time_ns": lambda: real["time_ns"]() + int(shift_s * 1e9),
        "localtime": later,
        "gmtime": lambda s=None: real["gmtime"](real["time"]() + shift_s if s is None else s),
        "ctime": lambda s=None: real["ctime"](real["time"]() + shift_s if s is None else s),
        "strftime": lambda form, t=None: real["strftime"](form, later() if t is None else t),
    }
    for name, function in changed.items():
        setattr(time, name, function)
    datetime.datetime, datetime.date = Moment, Day  # type: ignore[misc]


def main() -> None:
    """Entry point of the other process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # user code prints to stderr: stdout has the responses
    move_clocks()
    serve(sys.stdin.buffer, answers)
