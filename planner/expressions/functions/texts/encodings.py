"""Encodings of texts: base64, hexadecimal digits, URLs, checksums."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.entries.family import E, Family, Functions, Sql, of_texts
from planner.expressions.entries.signature import plain_call, typed
from planner.expressions.functions.texts.words import mapped
from planner.expressions.nodes import Function
from planner.expressions.spark.errors import UnsupportedInBatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT, _INTEGER = pa.string(), pa.int64()
_WORD = 1 << 64
_HEXADECIMAL = 16


def _from_base64(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


_JSON_TYPES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}


def _json_type(text: str) -> str | None:
    try:
        return _JSON_TYPES[type(json.loads(text))]
    except ValueError:
        return None


def _digits(values: Sequence[Value], call: Call) -> Value:
    """Return the digits of integers; negative numbers in 64-bit two's complement, as in Spark."""
    form = "X" if call.option("base") == _HEXADECIMAL else "b"

    def one(number: int | None) -> str | None:
        return None if number is None else format(number % _WORD, form)

    value = values[0]
    if isinstance(value, pa.Scalar):
        return pa.scalar(one(value.as_py()), _TEXT)
    return pa.array([one(number) for number in value.to_pylist()], _TEXT)


def _resolve_digits(call: Call) -> Node | None:
    kind = call.args[0].type
    return typed(call, _TEXT, _INTEGER) if pa.types.is_integer(kind) else None


def _spark_digits(call: Call, a: str) -> str:
    return f"hex({a})" if call.option("base") == _HEXADECIMAL else f"bin({a})"


def _no_twin(call: Call, *_args: str) -> str:
    raise UnsupportedInBatchError(str(call), "Spark fails where this returns null")


ENCODINGS = Family("str", of_texts)
FUNCTIONS = ENCODINGS.functions


class Encodings(Functions[E]):
    """Encodings of texts."""

    __slots__ = ()

    @ENCODINGS.function(
        _TEXT,
        lambda values, _call: mapped(
            values[0], lambda text: base64.b64encode(text.encode()).decode(), _TEXT
        ),
        spark="base64(encode({args}, 'utf-8'))",
        sql=(Sql("TO_BASE64", node="ToBase64"), "BASE64"),
        examples={"TO_BASE64('failed')": "ZmFpbGVk"},
    )
    def to_base64(self) -> E:
        """Encode the UTF-8 bytes in base64."""
        return self._call("to_base64")

    @ENCODINGS.function(
        _TEXT,
        lambda values, _call: mapped(values[0], _from_base64, _TEXT),
        spark=_no_twin,
        sql=Sql("FROM_BASE64", node="FromBase64"),
    )
    def from_base64(self) -> E:
        """Decode base64 to text; null if the input is not base64 of UTF-8 text."""
        return self._call("from_base64")

    @ENCODINGS.function(
        _TEXT,
        lambda values, _call: mapped(values[0], lambda text: text.encode().hex().upper(), _TEXT),
        spark="hex({args})",
    )
    def to_hex(self) -> E:
        """Encode the UTF-8 bytes in hexadecimal digits."""
        return self._call("to_hex")

    @ENCODINGS.function(
        _INTEGER,
        lambda values, _call: mapped(values[0], lambda text: zlib.crc32(text.encode()), _INTEGER),
        spark="crc32({args})",
        sql="CRC32",
    )
    def crc32(self) -> E:
        """Return the CRC-32 checksum of the UTF-8 bytes."""
        return self._call("crc32")

    @ENCODINGS.function(
        _TEXT,
        lambda values, _call: mapped(
            values[0], lambda text: quote_plus(text, safe="*").replace("~", "%7E"), _TEXT
        ),
        spark="url_encode({args})",
        sql="URL_ENCODE",
    )
    def url_encode(self) -> E:
        """Encode as a value in a URL; a space becomes ``+``."""
        return self._call("url_encode")

    @ENCODINGS.function(
        _TEXT,
        lambda values, _call: mapped(values[0], unquote_plus, _TEXT),
        spark="url_decode({args})",
        sql="URL_DECODE",
    )
    def url_decode(self) -> E:
        """Decode a value from a URL."""
        return self._call("url_decode")

    @ENCODINGS.function(
        _TEXT,
        lambda values, _call: mapped(values[0], _json_type, _TEXT),
        spark=_no_twin,
        sql="JSON_TYPEOF JSONB_TYPEOF",
    )
    def json_type(self) -> E:
        """Return the type of a JSON value: ``"object"``, ``"array"``, ``"number"`` and so on."""
        return self._call("json_type")

    @ENCODINGS.function(
        _INTEGER,
        lambda values, call: pc.count_substring_regex(values[0], call.option("pattern")).cast(
            _INTEGER
        ),
        spark=_no_twin,
        sql=Sql("REGEXP_COUNT", parts=("this", "expression")),
    )
    def count_matches(self, pattern: str) -> E:
        """Return the number of matches of a regular expression."""
        return self._call("count_matches", pattern=pattern)


FUNCTIONS["digits"] = Function(
    "digits", _resolve_digits, _digits, plain_call("digits"), spark=_spark_digits
)
