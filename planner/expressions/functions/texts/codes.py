"""Digests of texts, code points of characters, and lengths in bytes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, of_texts, plain_value
from planner.expressions.entries.signature import method, typed
from planner.expressions.functions.texts.text import LENGTHS
from planner.expressions.functions.texts.words import mapped, per_text
from planner.expressions.nodes import Function
from planner.expressions.spark.casts import failure
from planner.expressions.spark.errors import MARK
from planner.expressions.spark.let_bindings import let

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT, _INTEGER = pa.string(), pa.int64()


def _chr(values: Sequence[Value], call: Call) -> Value:
    codes = values[0]
    if isinstance(codes, pa.Scalar):
        return _chr([pa.repeat(codes, 1)], call)[0]
    numbers = codes.fill_null(0).to_numpy(zero_copy_only=False)
    unique, places = np.unique(numbers, return_inverse=True)
    try:
        texts = pa.array([chr(code) for code in unique.tolist()], _TEXT)
    except (ValueError, OverflowError):
        raise pa.ArrowInvalid("a number is not the code of a character") from None
    return pc.if_else(codes.is_valid(), texts.take(pa.array(places)), pa.scalar(None, _TEXT))


def _resolve_chr(call: Call) -> Node | None:
    kind = call.args[0].type
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        return None
    return typed(call, _TEXT, _INTEGER)


def _digest(values: Sequence[Value], call: Call) -> Value:
    """Return the digest of the UTF-8 bytes, in lower-case hexadecimal digits."""
    new = getattr(hashlib, call.option("algorithm"))

    def digest(text: str) -> str:
        return str(new(text.encode(), usedforsecurity=False).hexdigest())

    return mapped(values[0], digest, _TEXT)


def _spark_digest(call: Call, a: str) -> str:
    algorithm = call.option("algorithm")
    if algorithm.startswith("sha") and algorithm != "sha1":
        return f"sha2({a}, {algorithm.removeprefix('sha')})"
    return f"{algorithm}({a})"


def _spark_character(call: Call, a: str) -> str:
    """Return SQL that decodes UTF-32 after a byte order mark: Spark's ``chr`` ends at 256."""
    wrong = failure(f"cannot evaluate {str(call).replace(MARK, '')}: not the code of a character")
    is_code = "{0} between 0 and 55295 or {0} between 57344 and 1114111"
    made = "decode(unhex(concat('0000FEFF', lpad(hex({0}), 8, '0'))), 'UTF-32')"
    return let(
        a,
        lambda x: f"if({x} is null, null, if({is_code.format(x)}, {made.format(x)}, {wrong}))",
    )


def _sha2(text: Any, length: Any) -> Any:
    return text.str.digest(f"sha{plain_value(length) or 256}")


CODES = Family("str", of_texts)
FUNCTIONS = CODES.functions


class Codes(Functions[E]):
    """Digests and code points."""

    __slots__ = ()

    @CODES.function(
        _TEXT,
        _digest,
        spark=_spark_digest,
        sql=(
            Sql("MD5", lambda s: s.str.digest("md5")),
            Sql("SHA1 SHA", lambda s: s.str.digest("sha1"), node="SHA"),
            Sql("SHA256", lambda s: s.str.digest("sha256")),
            Sql("SHA512", lambda s: s.str.digest("sha512")),
            Sql("SHA2", _sha2, parts=("this", "length")),
        ),
    )
    def digest(self, algorithm: str) -> E:
        """Return the digest ``"md5"``, ``"sha1"``, ``"sha256"`` or ``"sha512"`` as hex digits."""
        if algorithm not in ("md5", "sha1", "sha256", "sha512"):
            raise InvalidPlanError(
                f"digest({algorithm!r}): choose one of md5, sha1, sha256, sha512"
            )
        return self._call("digest", algorithm=algorithm)

    @CODES.function(
        _INTEGER,
        per_text(lambda t: ord(t[0]) if t else 0, _INTEGER),
        spark="cast(ascii({args}) as {type})",
        sql="ASCII",
        bounds=LENGTHS,
    )
    def ascii(self) -> E:
        """Return the code point of the first character; 0 for an empty text."""
        return self._call("ascii")

    @CODES.function(
        _INTEGER,
        lambda values, _call: pc.binary_length(values[0]).cast(_INTEGER),
        spark="cast(octet_length({args}) as {type})",
        sql=Sql("OCTET_LENGTH"),
        bounds=LENGTHS,
    )
    def byte_length(self) -> E:
        """Return the length in bytes of UTF-8."""
        return self._call("byte_length")


FUNCTIONS["character"] = Function(
    "character", _resolve_chr, _chr, method("character"), spark=_spark_character, may_fail=True
)
