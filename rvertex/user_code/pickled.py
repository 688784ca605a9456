"""Pickles plans and queries; records are stored by the names of their fields."""

from __future__ import annotations

import io
from typing import Any

from pyspark import cloudpickle

from rvertex.user_code.stored import reduced


class _Writer(cloudpickle.Pickler):
    """Pickles our records by the names of their fields, so that later releases can read them."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to pickle ``obj``."""
        return reduced(obj) or super().reducer_override(obj)  # type: ignore[no-untyped-call]


def pickled(value: object) -> bytes:
    """Pickle ``value`` together with the classes and functions of query files."""
    sink = io.BytesIO()
    _Writer(sink).dump(value)  # type: ignore[no-untyped-call]
    return sink.getvalue()
