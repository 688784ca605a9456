"""The parts of a URL, not decoded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, of_texts, plain_value
from planner.expressions.functions.texts.pattern_groups import named_groups
from planner.expressions.functions.texts.words import on_arrays
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.types import text as quoted

if TYPE_CHECKING:
    from planner.expressions.nodes import Call

_TEXT = pa.string()
_SPACE = r" \t\r\n\f\x0B"
_URL = (
    r"\A(?:([A-Za-z][A-Za-z0-9+.-]*):)?"
    rf"(?://((?:([^/?#@{_SPACE}]*)@)?(\[[^\]/?#{_SPACE}]*\]|[^:/?#{_SPACE}]*)(?::[^/?#{_SPACE}]*)?))?"
    rf"(([^?#{_SPACE}]*)(?:\?([^#{_SPACE}]*))?)"
    rf"(?:#([^{_SPACE}]*))?\z"
)
#: The groups of :data:`_URL`.
URL_PARTS = {
    "protocol": 1, "authority": 2, "userinfo": 3, "host": 4, "file": 5, "path": 6, "query": 7,
    "ref": 8,
}  # fmt: skip


def url_pattern(key: str | None) -> str:
    """Return the regular expression of a URL, or of a value of its query."""
    return _URL if key is None else rf"(?:\A|&){re.escape(key)}=([^&]*)"


def _url(texts: pa.Array, call: Call) -> pa.Array:
    """Return a part of a URL, not decoded; null for a missing part and for invalid URLs."""
    part, key = str(call.option("part")), call.option("key")
    groups = pc.extract_regex(texts, named_groups(_URL))
    made = pc.struct_field(groups, f"g{URL_PARTS[part]}").cast(_TEXT)
    if part not in ("path", "file"):
        made = pc.if_else(pc.equal(made, ""), None, made)
    if key is None:
        return made
    values = pc.extract_regex(made, named_groups(url_pattern(str(key))))
    return pc.struct_field(values, "g1").cast(_TEXT)


def _spark_url(call: Call, a: str) -> str:
    part, key = call.option("part"), call.option("key")
    pattern = quoted(url_pattern(None))

    def of_part(x: str) -> str:
        extracted = f"regexp_extract({x}, {pattern}, {URL_PARTS[part]})"
        kept = extracted if part in ("path", "file") else f"nullif({extracted}, '')"
        return f"if({x} rlike {pattern}, {kept}, null)"

    made = let(a, of_part)
    if key is None:
        return made
    wanted = quoted(url_pattern(key))
    return let(made, lambda x: f"if({x} rlike {wanted}, regexp_extract({x}, {wanted}, 1), null)")


def _by_name(url: Any, part: Any, key: Any = None) -> Any:
    return url.str.url(str(plain_value(part)).lower(), plain_value(key))


URLS = Family("str", of_texts)
FUNCTIONS = URLS.functions


class Urls(Functions[E]):
    """Parts of URLs."""

    __slots__ = ()

    @URLS.function(
        _TEXT,
        on_arrays(_url),
        spark=_spark_url,
        sql=Sql("PARSE_URL", _by_name, parts=("this", "part_to_extract", "key")),
        examples={"PARSE_URL('https://a.org/x?n=7', 'QUERY', 'n')": "7"},
    )
    def url(self, part: str, key: str | None = None) -> E:
        """Return a part of a URL, not decoded: ``"host"``, ``"path"``, ``"query"`` and others.

        With ``key``: the value of that name in the query. Null for a missing part and for invalid
        URLs.
        """
        if part not in URL_PARTS:
            raise InvalidPlanError(f"url({part!r}): the parts are {', '.join(URL_PARTS)}")
        if key is not None and part != "query":
            raise InvalidPlanError(f"url({part!r}, {key!r}): only the part 'query' takes a key")
        return self._call("url", part=part, key=key)
