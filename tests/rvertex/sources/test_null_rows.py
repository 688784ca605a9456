"""A JSON row that is ``null`` is an error with its name; Arrow's reader would crash the process.

Not covered: other texts that crash it.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from rvertex.sources.formats.json_lines import parse_json

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


@pytest.mark.parametrize("schema", [SCHEMA, None])
@pytest.mark.parametrize(
    "text", [b"null", b" \n null\n", b'null\n{"n":1}\n', b'{"n":1}\nnull\n', b"null null", b"nullx"]
)
def test_a_null_row_is_rejected(text: bytes, schema: pa.Schema | None) -> None:
    with pytest.raises(pa.ArrowInvalid, match="a row is null"):
        parse_json(text, schema)


def test_null_values_are_read() -> None:
    assert parse_json(b'{"n":null,"s":"\\nnull"}\n', SCHEMA)["s"].to_pylist() == ["\nnull"]
