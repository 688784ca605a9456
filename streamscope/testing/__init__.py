"""Test queries in this process: :class:`TestStream`, :func:`assert_deterministic`, literals."""

from streamscope.testing.determinism import assert_deterministic
from streamscope.testing.errors import JobUnderFaultsError, NotDeterministicError
from streamscope.testing.golden import assert_golden
from streamscope.testing.inputs import Input
from streamscope.testing.simulation.of_query import assert_survives
from streamscope.testing.stream import TestStream
from streamscope.testing.tables import rows

__all__ = [
    "Input",
    "JobUnderFaultsError",
    "NotDeterministicError",
    "TestStream",
    "assert_deterministic",
    "assert_golden",
    "assert_survives",
    "rows",
]
