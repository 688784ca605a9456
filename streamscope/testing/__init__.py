"""Test queries in this process: :class:`TestStream`, :func:`assert_deterministic`, literals."""

from streamscope.testing.determinism import assert_deterministic
from streamscope.testing.errors import NotDeterministicError
from streamscope.testing.golden import assert_golden
from streamscope.testing.inputs import Input
from streamscope.testing.stream import TestStream
from streamscope.testing.tables import rows

__all__ = [
    "Input",
    "NotDeterministicError",
    "TestStream",
    "assert_deterministic",
    "assert_golden",
    "rows",
]
