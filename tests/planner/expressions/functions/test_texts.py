"""Text comparison, times with a format, parts of URLs: against Python's own, and by hand.

Not covered: results of Spark (tests/spark) or DuckDB (the catalogue).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from random import Random
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from planner import EvaluationError, Expr, InvalidPlanError, Stream, col, event, lit, sql
from planner.expressions.functions.texts.likeness import edits


def values(expr: Expr, *texts: str | None) -> list[object]:
    """Evaluate over a column ``s`` of these texts, over a slice of it, and per value."""
    batch = pa.RecordBatch.from_pydict({"s": pa.array(texts, pa.string())})
    found = expr.evaluate(batch)
    assert expr.evaluate(batch.slice(1)).equals(found.slice(1))
    assert found.type == expr.output_type(batch.schema)
    return found.to_pylist()  # type: ignore[no-any-return]


@cache
def edits_by_definition(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    return min(
        edits_by_definition(one[1:], other) + 1,
        edits_by_definition(one, other[1:]) + 1,
        edits_by_definition(one[1:], other[1:]) + (one[0] != other[0]),
    )


def test_edit_distances_follow_the_definition() -> None:
    rng = Random(5)
    for _ in range(300):
        one, other = ("".join(rng.choices("abé", k=rng.randrange(7))) for _ in range(2))
        assert edits(one, other) == edits_by_definition(one, other), (one, other)
    long = "".join(rng.choices("ab", k=300))
    assert edits(long, f"x{long[1:-1]}") == 2


def test_similarity_of_columns_and_literals() -> None:
    assert values(col("s").str.levenshtein("sitting"), "kitten", "", None) == [3, 7, None]
    assert values(col("s").str.levenshtein(col("s") + "é"), "a", "é", None) == [1, 1, None]
    assert values(lit("ab").str.levenshtein("b") + col("s").str.length(), "x", None) == [2, None]
    names = ["Robert", "Rupert", "Ashcraft", "Tymczak", "Pfister", "lee", "", "1st", "Ço", None]
    codes = ["R163", "R163", "A261", "T522", "P236", "L000", "", "1st", "Ço", None]
    assert values(col("s").str.soundex(), *names) == codes


FORMATS = [
    "%Y-%m-%d %H:%M:%S.%f",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %B %Y %I:%M:%S %p",
    "%y%m%d%H%M%S",
    "(%Y) %m+%d?",
    "100%% %d.%m.%Y",
    "%A %Y\\%m",
]


@pytest.mark.parametrize("format", FORMATS)
def test_times_are_parsed_like_python(format: str) -> None:
    rng = Random(7)
    moments = [
        datetime(1969, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(10**15 * 3))
        for _ in range(20)
    ]
    texts = [moment.strftime(format) for moment in moments]
    broken = [text[:at] + rng.choice("0931x -") + text[at + 1 :] for at, text in enumerate(texts)]
    texts += [*broken, *(text.replace("0", "") for text in texts), "", "Z"]
    read: list[datetime | None] = []
    for text in texts:
        try:
            found = datetime.strptime(text, format)  # noqa: DTZ007 - UTC without a zone
            read.append(found if found.tzinfo else found.replace(tzinfo=UTC))
        except ValueError:
            read.append(None)
    made = values(col("s").str.to_timestamp(format, strict=False), *texts)
    assert [*zip(texts, made, strict=True)] == [*zip(texts, read, strict=True)]
    assert values(col("s").str.to_timestamp(format), *texts[:20], None) == [*read[:20], None]


def test_zones_and_dates() -> None:
    format = "%Y-%m-%dT%H:%M:%S%z"
    texts = ["2026-01-31T01:30:00+02:00", "2026-01-31T01:30:00-0230", "2026-01-31T01:30:00Z"]
    hours = [datetime(2026, 1, 30, 23, 30), datetime(2026, 1, 31, 4), datetime(2026, 1, 31, 1, 30)]  # noqa: DTZ001
    moments = [hour.replace(tzinfo=UTC) for hour in hours]
    assert values(col("s").str.to_timestamp(format), *texts) == moments
    assert values(col("s").str.to_date("%d.%m.%y"), "29.2.24", "1.12.69") == [
        date(2024, 2, 29),
        date(1969, 12, 1),
    ]
    assert values(lit("2026").str.to_date("%Y"), "x", "y") == [date(2026, 1, 1)] * 2


def test_a_time_that_does_not_fit_is_named() -> None:
    for text in ("2026-02-29", "0000-01-01", "2026-13-01", "26-01-01", "2026-01-01 "):
        with pytest.raises(
            EvaluationError, match=f"a text is not a time in the format .*, for '{text}'"
        ):
            values(col("s").str.to_timestamp("%Y-%m-%d"), "2026-01-01", text)
    with pytest.raises(InvalidPlanError, match="a text is not a time"):
        values(lit("x").str.to_date("%Y"), "y")


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("%Q", "the format '%Q' has %Q, which is not supported; write one of %Y %y %m"),
        ("%H:%M", "has no year"),
        ("%Y %m %b", "has %m or %b or %B more than once"),
        ("%Y %d %d", "has %d more than once"),
        ("%Y %I", "%I and %p, AM or PM, must be used together"),
        ("%Y %", "has %, which is not supported"),
    ],
)
def test_useless_formats_are_rejected(format: str, message: str) -> None:
    with pytest.raises(InvalidPlanError, match=message):
        col("s").str.to_timestamp(format)


def test_formats_of_sql_dialects() -> None:
    rows = Stream.from_items({"s": "string"}, [event(1, s="31.1.2026 7:05:09.5 +01")])
    read = "TO_TIMESTAMP(s, 'd.M.yyyy H:mm:ss.SSS')"
    for text, message in (
        (
            f"SELECT {read.replace('yyyy', 'YYYY')} AS t FROM r",
            "has 'YYYY', unknown there; write one of yyyy",
        ),
        ("SELECT TO_DATE(s, s) AS t FROM r", "s cannot be a format: write a literal"),
        ("SELECT WIDTH_BUCKET(1, s, 2, 3) AS t FROM r", "s cannot be an end of the buckets"),
        ("SELECT PARSE_URL(s, 'PORT') AS t FROM r", "the parts are protocol, authority"),
        ("SELECT PARSE_URL(s, 'HOST', 'k') AS t FROM r", "only the part 'query' takes a key"),
        ("SELECT STR_TO_DATE(s, '%Y') AS t FROM r", "write TO_DATE"),
    ):
        with pytest.raises(InvalidPlanError, match=message):
            sql(text, {"r": rows})


URLS = [
    *("https://me:pw@ex.org:80/a/b?x=1&y=%20&x=2#f", "/a?x=", "mailto:a@b", "http://[::1]:9/"),
    *(
        "http://h?k=v",
        "//h/p",
        "x",
        "",
        "a/b?c#d?e",
        "ftp://h#",
        "http://h:x/?&b&a=1=2",
        "s3://b/k",
    ),
]


def test_parts_of_urls_equal_python() -> None:
    url = col("s").str.url
    split = [urlsplit(text) for text in URLS]
    assert values(url("host"), *URLS) == [
        s.netloc.rpartition("@")[2].rsplit(":", 1)[0] or None
        if "]:" in s.netloc or "[" not in s.netloc
        else s.netloc
        for s in split
    ]
    assert values(url("protocol"), *URLS) == [s.scheme or None for s in split]
    assert values(url("authority"), *URLS) == [s.netloc or None for s in split]
    assert values(url("path"), *URLS) == [s.path for s in split]
    assert values(url("query"), *URLS) == [s.query or None for s in split]
    assert values(url("ref"), *URLS) == [s.fragment or None for s in split]
    assert values(url("userinfo"), *URLS)[:2] == ["me:pw", None]
    assert values(url("file"), *URLS)[:2] == ["/a/b?x=1&y=%20&x=2", "/a?x="]
    named = [parse_qs(s.query, keep_blank_values=True).get("x", [None])[0] for s in split]
    assert values(url("query", "x"), *URLS) == named
    assert values(url("path"), "no url", "a\nb", None) == [None, None, None]
    assert values(url("query", "a.b"), "?aXb=1&a.b=2", "?a.b", "?c.a.b=1") == ["2", None, None]


def test_groups_are_numbered_as_in_the_regular_expression() -> None:
    """Groups count with and without names; a parenthesis in a class, or quoted, starts none."""
    for pattern, groups in (
        ("(?P<y>a)(b)", ["ab", "a", "b"]),
        ("(?<y>a)(?:b)([(])", ["ab(", "a", "("]),
        ("([[:alpha:](]+)(.)", ["ab(1", "ab(", "1"]),
        ("([^]]b)[]()]([[:^alpha:]])", ["ab(1", "ab", "1"]),
        (r"(b)\Q(1\E([)?]+)", ["b(1)?", "b", ")?"]),
        (r"b\((1)", ["b(1", "1"]),
    ):
        for group, wanted in enumerate(groups):
            found = values(col("s").str.extract(pattern, group), "ab(1)?P<g1>x", "", None)
            assert found == [wanted, "", None], (pattern, group)
        with pytest.raises(InvalidPlanError, match=f"the pattern has {len(groups) - 1} groups"):
            values(col("s").str.extract(pattern, len(groups)), "")
