"""Running out of memory is not reported as a bad row, although Arrow's errors are related.

Not checked: handlers of ``Exception``, or of Arrow's errors under another name.
"""

from __future__ import annotations

import ast

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from rstream.store.blobs import FsspecBlobs
from tests.rooms import FILES, ROOT, tree

#: These handlers inspect data for messages, or use the network; they skip no row.
LOOKS = (
    "rstream/transport/flight.py",
    "rvertex/sources/mixed.py",
    "rvertex/sources/formats/carried.py",
    "rvertex/sources/formats/first_rows/csv_look.py",
    "rvertex/sources/formats/first_rows/value_notes.py",
    "planner/expressions/failure.py",
    "planner/expressions/types.py",
    "planner/expressions/type_names.py",
)
PACKAGES = ("rstream/", "rvertex/", "planner/expressions/")


def test_arrow_reports_a_lack_of_memory_as_a_distinct_error() -> None:
    assert {pa.ArrowException, MemoryError} <= {*pa.ArrowMemoryError.__mro__}


def test_handlers_of_data_errors_do_not_catch_memory_errors() -> None:
    wrong = []
    for file in FILES:
        if not file.startswith(PACKAGES) or file in LOOKS:
            continue
        if "ArrowException" not in (ROOT / file).read_text():
            continue
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Try):
                kinds = [ast.unparse(h.type) if h.type else "" for h in node.handlers]
                data = next((k for k, kind in enumerate(kinds) if "ArrowException" in kind), None)
                if data is not None and "MemoryError" not in kinds[:data]:
                    wrong.append(f"{file}:{node.lineno}")
    assert not wrong


def test_a_lack_of_memory_does_not_count_as_an_unreachable_store() -> None:
    class Short(MemoryFileSystem):
        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
            raise MemoryError

    with pytest.raises(MemoryError):
        FsspecBlobs(Short(), "/short").put("x", b"y")
