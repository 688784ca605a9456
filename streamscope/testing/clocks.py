"""The environment of a query under test: a clock that the test moves, and seeded randomness."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from planner.durations import time_us
from rstream.clock import SystemClock
from rvertex.checkpoint.calls import ThreadedCalls
from rvertex.user_code.code import UserCode

if TYPE_CHECKING:
    from planner.durations import Time
    from rvertex.user_code.context import CallPolicy, Calls


class VirtualClock:
    """Supplies ``ctx.now()``, ``ctx.random()``, and the recorded results of lookups."""

    def __init__(self, now: Time, seed: int, answers: Mapping[str, Any] | None = None) -> None:
        self.us = time_us(now, what="now")
        self._random = Random(seed)
        self._answers = answers or {}

    def now_us(self) -> int:
        return self.us

    def random(self) -> float:
        return self._random.random()

    def unknown_calls(self) -> str:
        """Return the rule for calls whose result is unknown after a restart."""
        return ""

    def calls(self, code: UserCode, policy: CallPolicy) -> Calls:
        """Return calls that use recorded results; without any they call the function."""
        answers = self._answers.get(code.name)
        if answers is not None:
            code = UserCode(code.identity, _Recorded(code.name, answers, policy.batch is not None))
        return ThreadedCalls(code, policy, SystemClock(), None)


class _Recorded:
    """A function that returns recorded results by argument; a recorded exception is raised."""

    def __init__(self, function: str, answers: Any, in_lists: bool) -> None:
        self._function, self._answers, self._in_lists = function, answers, in_lists

    def __call__(self, *arguments: Any) -> Any:
        if self._in_lists:
            return [self._one(argument) for argument in arguments[0]]
        return self._one(arguments[0] if len(arguments) == 1 else arguments)

    def _one(self, argument: Any) -> Any:
        answers = self._answers
        if not isinstance(answers, Mapping):
            return answers(*argument) if isinstance(argument, tuple) else answers(argument)
        if argument not in answers:
            raise KeyError(f"no answer of {self._function} for {argument!r}")
        if isinstance(answers[argument], BaseException):
            raise answers[argument]
        return answers[argument]
