"""Pickles plans and queries. Records are stored by the names of their fields."""

from __future__ import annotations

import io
from typing import Any

from pyspark import cloudpickle

from rvertex.user_code.stored import reduced


class _Writer(cloudpickle.Pickler):
    """Pickles this project's records by the names of their fields, for later releases."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to pickle ``obj``."""
        return reduced(obj) or super().reducer_override(obj)  # type: ignore[no-untyped-call]


def pickled(value: object) -> bytes:
    """Pickle ``value`` together with the classes and functions of query files."""
    sink = io.BytesIO()
    _Writer(sink).dump(value)  # type: ignore[no-untyped-call]
    return sink.getvalue()
