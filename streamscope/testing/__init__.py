"""Test queries in this process: :class:`TestStream`, :func:`rows`, :class:`Input`."""

from streamscope.testing.errors import NotDeterministicError
from streamscope.testing.inputs import Input
from streamscope.testing.stream import TestStream
from streamscope.testing.tables import rows

__all__ = ["Input", "NotDeterministicError", "TestStream", "rows"]
