"""Checks of user code: what cannot be sent, what cannot be repeated, and what can.

Not covered: unrepeatable code inside a library or behind a name built at run time.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import platform
import random
import socket
import threading
import time
import uuid
from datetime import datetime
from time import time as wall_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from planner.errors import InvalidPlanError
from planner.user_code import user_code

if TYPE_CHECKING:
    from collections.abc import Callable

GENERATOR = random.Random(7)
FACTOR = 3
LOCK = threading.Lock()


def helper(x: Any) -> Any:
    return x + time.time()


def innocent(x: Any) -> Any:
    return (x * FACTOR, dt.datetime.fromtimestamp(x, dt.UTC), time.gmtime(x), uuid.UUID(int=x))


class Model:
    def predict(self, x: Any) -> Any:
        return x + np.random.rand()


class Clean:
    factor = 2

    def __call__(self, x: Any) -> Any:
        return x * self.factor


def imports_inside(x: Any) -> Any:
    import numpy.random as nr

    return x + nr.rand()


def imports_from(x: Any) -> Any:
    from secrets import token_hex

    return token_hex(x)


def in_comprehension(xs: Any) -> Any:
    return [x + wall_time() for x in xs]


def closing_over(made: Any) -> Callable[[Any], Any]:
    return lambda x: made(x)


MODEL = Model()
NUMPY = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("code", "culprit"),
    [
        (lambda x: time.time(), "uses time.time"),
        (lambda x: time.perf_counter_ns(), "time.perf_counter_ns"),
        (lambda x: datetime.now(), "datetime.now"),  # noqa: DTZ005  the culprit
        (lambda x: dt.datetime.utcnow(), "datetime.utcnow"),  # noqa: DTZ003  the culprit
        (lambda x: dt.date.today(), "date.today"),  # noqa: DTZ011  the culprit
        (lambda x: random.random(), "random.random"),
        (lambda x: GENERATOR.random(), "'GENERATOR', a Random, whose state is lost"),
        (lambda x: NUMPY.random(), "'NUMPY', a Generator, whose state is lost"),
        (lambda x: np.random.rand(), "numpy.random"),
        (lambda x: uuid.uuid4(), "uuid.uuid4"),
        (lambda x: uuid.getnode(), "uuid.getnode"),
        (lambda x: platform.node(), "platform.node"),
        (lambda x: socket.gethostname(), "socket.gethostname"),
        (lambda x: os.uname(), "os.uname"),
        (lambda x: hash(x), "uses hash"),
        (lambda x: MODEL.predict(x), "numpy.random"),
        (lambda x: Model().predict(x), "numpy.random"),
        (helper, "time.time"),
        (lambda x: helper(x), "time.time"),
        (functools.partial(helper), "time.time"),
        (functools.partial(innocent, time.time), "time.time"),
        (closing_over(helper), "time.time"),
        (closing_over(time.time), "time.time"),
        (imports_inside, "numpy.random"),
        (imports_from, "secrets.token_hex"),
        (in_comprehension, "time.time"),
        (MODEL.predict, "numpy.random"),
        (Model, "numpy.random"),
    ],
)
def test_nondeterministic_code_is_rejected(code: Any, culprit: str) -> None:
    with pytest.raises(InvalidPlanError) as raised:
        user_code(code, "apply", None)
    assert culprit in str(raised.value)
    assert "declare deterministic=False" in str(raised.value)
    assert user_code(code, "apply", True).is_deterministic
    assert not user_code(code, "apply", False).is_deterministic


def test_the_line_is_named() -> None:
    with pytest.raises(InvalidPlanError, match=rf"apply\(helper\): line \d+ of {__file__} uses"):
        user_code(helper, "apply", None)


@pytest.mark.parametrize("code", [innocent, Clean(), Clean, closing_over(innocent), len, np.sqrt])
def test_deterministic_code_passes(code: Any) -> None:
    assert user_code(code, "apply", None).is_deterministic


def test_values_drawn_from_a_context_are_detected() -> None:
    class Draws:
        def on_event(self, event: Any, ctx: Any) -> None:
            ctx.emit(ctx.now())

    assert user_code(Draws, "process", None).draws_values
    assert not user_code(innocent, "apply", None).draws_values


def test_objects_that_cannot_be_sent_are_named() -> None:
    lock = threading.Lock()
    with pytest.raises(InvalidPlanError, match="its closure variable 'lock' is a lock"):
        user_code(lambda x: lock, "apply", None)
    with pytest.raises(InvalidPlanError, match="its closure variable 'lock' is a lock"):
        user_code(closing_over(lambda x: lock), "udf", None)


def test_identity_follows_content() -> None:
    def of(factor: int) -> Any:
        return user_code(lambda x: x * factor, "apply", None)

    assert of(2) == of(2)
    assert of(2) != of(3)
    assert user_code(lambda x: x + 1, "a", None) != user_code(lambda x: x + 2, "a", None)
    assert of(2).name == "<lambda>"


def test_identity_follows_the_arguments_of_partial() -> None:
    def of(*args: Any, **named: Any) -> Any:
        return user_code(functools.partial(innocent, *args, **named), "apply", None)

    assert of(2) == of(2) != of(3)
    assert of(x=2) == of(x=2) != of(x=3)
