"""Every expression, as a stream and as Spark SQL evaluate it.

Not covered: an error that both share; patterns that RE2 and Java interpret differently.
"""

from __future__ import annotations

import math
from datetime import date, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, strategies as st

from planner import EvaluationError, Stream, coalesce, col, event, lit, ve, vs, when
from planner.batch.spark_sql import BatchDataError, UnsupportedInBatchError
from planner.expressions.nodes import resolve
from planner.expressions.types import TIMESTAMP
from rstream.items.batch import VE, VS
from tests.planner.expressions.functions.test_functions import BATCH, TABLE
from tests.spark.batches import assert_twins, batched, streamed
from tests.support.budget import examples
from tests.support.expressions import SCHEMA, Row, Twin, rows, twins

if TYPE_CHECKING:
    from planner import Expr

pytestmark = pytest.mark.spark
INFINITE = math.inf
FLOATS = [None, 0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 7.0, 1e17, -1e300, INFINITE, -INFINITE, math.nan]
INTEGERS = [None, 0, 1, -1, 7, -7, 3, 2**31, 2**63 - 1, -(2**63)]


def stream_of(columns: dict[str, list[Any]], schema: dict[str, Any]) -> Stream:
    """Point events, one per row, starting one second before 1970."""
    count = len(next(iter(columns.values())))
    items = [
        event(i * 250_000 - 1_000_000, **{name: values[i] for name, values in columns.items()})
        for i in range(count)
    ]
    return Stream.from_items(schema, items)


def selected(stream: Stream, expressions: list[Expr]) -> Stream:
    """All expressions in one projection."""
    return stream.select("at", **{f"e{i}": e for i, e in enumerate(expressions)})


def numbered(columns: dict[str, list[Any]], schema: dict[str, Any]) -> Stream:
    """Rows with a number, which distinguishes them."""
    count = len(next(iter(columns.values())))
    return stream_of({"at": list(range(count)), **columns}, {"at": "int64", **schema})


def test_the_table_of_functions() -> None:
    payload = pa.schema([f for f in BATCH.schema if f.name not in (VS, VE)])
    lives = [(row.pop(VS), row.pop(VE), row) for row in BATCH.to_pylist()]
    stream = Stream.from_items(payload, [event(s, e, **row) for s, e, row in lives])
    wide = pa.types.is_decimal256
    shown = [e for e, kind, _ in TABLE if not wide(kind)]
    assert len(shown) >= len(TABLE) - 2
    assert_twins(stream.select(**{f"e{i}": e for i, e in enumerate(shown)}))


def test_float_expressions_have_the_same_values_in_spark() -> None:
    pairs = list(product(FLOATS, FLOATS))
    x, y = col("x"), col("y")
    stream = numbered(
        {"x": [a for a, _ in pairs], "y": [b for _, b in pairs]},
        {"x": "float64", "y": "float64"},
    )
    small = (x < 1e16) & (x > -1e16)
    expressions = [
        *(x + y, x - y, x * y, x / y, x // y, x % y, -x, abs(x), x.sqrt(), x.floor(), x.ceil()),
        *(x == y, x != y, x < y, x <= y, x > y, x >= y, x.between(y, 5.0), x.is_null()),
        *(x.round(), when(small).then(x).otherwise(1.005).round(2), x.round(-2)),
        *(coalesce(x, y), when(x > y).then(x).otherwise(y), x.is_in([0.5, 7.0]), x.is_in([])),
        *(x.cast("float32"), x.cast("float32").round(1), x.cast("float32") + lit(1), x.cast(bool)),
        when(small).then(x).otherwise(0.0).cast("int8"),
    ]  # fmt: skip
    assert_twins(selected(stream, expressions))


def test_rounding_of_halves_and_near_halves() -> None:
    near = [0.49999999999999994, 2.675, 1.005, -1.005, 0.125, -0.375, 1234.5678, 25.0, -35.0, 4e15]
    stream = numbered({"x": [*near, None]}, {"x": "float64"})
    assert_twins(selected(stream, [col("x").round(digits) for digits in range(-3, 5)]))


def test_integer_expressions_have_the_same_values_in_spark() -> None:
    pairs = list(product(INTEGERS, INTEGERS))
    a, b = col("a"), col("b")
    stream = numbered(
        {"a": [v for v, _ in pairs], "b": [w for _, w in pairs]}, {"a": "int64", "b": "int64"}
    )
    small = stream.filter(a.between(-(2**31), 2**31) & b.between(-(2**31), 2**31))
    assert_twins(
        selected(small, [a + b, a - b, a * b, a // b, -a, abs(a), a.round(-1), b.round(-9)])
    )
    expressions = [
        *(a / b, a // when(b == -1).then(1).otherwise(b), a % b, a.round(), a.floor(), a.ceil()),
        *(a == b, a != b, a < b, a <= b, a > b, a >= b, a.between(b, 5), a.is_in([1, 7])),
        *(coalesce(a, b), when(a < b).then(a).otherwise(b), a.cast(str), a.cast(bool)),
        *(a.cast(float), a.cast("float32"), (a % 100).cast("int8"), a.sqrt(), a.round(-20)),
        ((a % 100 + 100) % 100).cast("uint16").cast("uint64") + lit(1).cast("uint64"),
    ]
    assert_twins(selected(stream, expressions))


def test_boolean_expressions_have_the_same_values_in_spark() -> None:
    pairs = list(product([None, True, False], repeat=2))
    p, q = col("p"), col("q")
    stream = numbered(
        {"p": [v for v, _ in pairs], "q": [w for _, w in pairs]}, {"p": "bool", "q": "bool"}
    )
    expressions = [
        *(p & q, p | q, ~p, p == q, p < q, p.is_null(), p.is_not_null(), p.fill_null(True)),
        *(p.cast(int), p.cast(str), p.cast(float)),
        when(p).then("p").when(q).then("q").otherwise(None),
        when(p & ~q).then(1).otherwise(2.5),
    ]
    assert_twins(selected(stream, expressions))


STRINGS = [
    *(None, "", " ", "a", "abcabc", "Ünïcødé ß", "日本語 テキスト", "😀 a 😀", "it's", 'say "x"'),
    *("back\\slash", "${x} $1 %_", "\ttabs\t and\nlines\n", "\x1c\x1funit\x1e", "\u2003em\u2003"),
    *("a,b,,c,", ",", "aaa", "a.b*c", "\\1", "true", "`tick`", "a\x00b"),
]


def test_text_expressions_have_the_same_values_in_spark() -> None:
    s = col("s")
    stream = numbered({"s": STRINGS}, {"s": "string"})
    patterns = ["a", ".", "\\", "'", "$", "${x}", "😀", "\n", '"', "%"]
    slices = [(0, 2), (1, None), (2, 1), (-2, None), (-3, -1), (-9, 2), (1, -1), (3, 3)]
    expressions = [
        *(s.str.length(), s.str.strip(), s.str.strip("a ,"), s.str.split(), s + "!", "\\'" + s),
        *(s.str.contains(p) for p in patterns),
        *(s.str.starts_with(p) for p in patterns),
        *(s.str.ends_with(p) for p in patterns),
        *(s.str.replace(p, "<\\1$>") for p in patterns),
        *(s.str.split(p) for p in patterns),
        *(s.str.slice(*bounds) for bounds in slices),
        *(s.str.contains("^a|b$", regex=True), s.str.contains(r"\d|'", regex=True)),
        s.str.replace("([a-c])([a-c])", r"\2$\1\\", regex=True),
        *(s.str.levenshtein(s.str.reverse()), s.str.levenshtein("ab😀c"), s.str.soundex()),
        *(s == "it's", s < "b", s.is_in(["a", "it's", "back\\slash"]), s.cast("binary")),
        *(when(s.str.contains("ß")).then("").otherwise(f()) for f in (s.str.upper, s.str.lower)),
    ]
    assert_twins(selected(stream, expressions))


WRITTEN = [
    *(None, "", "2026-01-31 12:07:09.25 PM +0130", "2026-02-29 1:7:9.000001 am Z"),
    *("2024-02-29 12:00:00.5 AM -05:30", "0000-01-01 01:00:00.0 AM Z", "2026-1-1 1:1:1.1 AM Z"),
    *("2026-01-31 13:07:09.25 PM Z", "x2026-01-31 12:07:09.25 PM Z", "20260131", "31.Jan 26"),
    *("1 December 69", "29.feb 25", "29.feb 24", "31 April 2026", "9999-12-31"),
]
ADDRESSES = [
    *(None, "", "https://me:pw@ex.org:80/a/b?x=1&y=%20&x=2#f", "/a?x=", "mailto:a@b"),
    *("http://[::1]:9/", "http://h?k=v", "//h/p", "no url", "a\nb", "?yx=3", "http://é.org/ü?x=ß"),
]


def test_functions_that_split_texts() -> None:
    s, u = col("s"), col("u")
    rows = max(len(WRITTEN), len(ADDRESSES))
    texts = {"s": WRITTEN, "u": ADDRESSES}
    padded = {name: [*values, *[None] * (rows - len(values))] for name, values in texts.items()}
    stream = numbered(padded, {"s": "string", "u": "string"})
    formats = [
        *("%Y-%m-%d %I:%M:%S.%f %p %z", "%Y%m%d", "%d.%b %y", "%d %B %y", "%d %B %Y", "%Y-%m-%d"),
    ]
    parts = ["protocol", "authority", "userinfo", "host", "file", "path", "query", "ref"]
    expressions = [
        *(s.str.to_timestamp(f, strict=False) for f in formats),
        *(s.str.to_date(f, strict=False) for f in formats),
        *(u.str.url(part) for part in parts),
        *(u.str.url("query", key) for key in ("x", "y", "a.b")),
    ]
    assert_twins(selected(stream, expressions))


def test_unreadable_values_fail_in_both() -> None:
    stream = numbered(
        {"s": ["2026-01-31", "2026-02-30"], "n": [20, 21]}, {"s": "string", "n": "int64"}
    )
    for expr in (col("s").str.to_timestamp("%Y-%m-%d"), col("n").factorial()):
        with pytest.raises(EvaluationError, match=r"for (21|'2026-02-30')"):
            streamed(selected(stream, [expr]))
        with pytest.raises(BatchDataError, match="cannot evaluate"):
            batched(selected(stream, [expr]))


TICKS = [
    *(None, 0, -1, 1, 86_399_999_999, -86_400_000_001),
    *(1_356_998_400_123_456, -62_135_596_800_000_000),
]


def test_time_expressions_have_the_same_values_in_spark() -> None:
    t, d = col("t"), col("d")
    days = [None if v is None else date(1970, 1, 1) + timedelta(microseconds=v) for v in TICKS]
    stream = numbered(
        {"t": TICKS, "d": days, "n": [None if v is None else v % 2**40 - 2**39 for v in TICKS]},
        {"t": "int64", "d": "date", "n": "int64"},
    ).with_columns(
        t=t.cast(TIMESTAMP), u=t.cast("timestamp"),
        n=col("n").cast(pa.timestamp("ns")), length=t.cast("duration"),
    )  # fmt: skip
    n, u, length = col("n"), col("u"), col("length")
    parts = ["year", "month", "day", "hour", "minute", "second", "weekday", "day_of_year"]
    expressions = [
        *(getattr(when(x.is_null()).then(None).otherwise(x).dt, part)()
          for x in (t, u, d) for part in parts),
        *(x.dt.truncate(every) for x in (t, u, d, vs()) for every in ("1h", "7d", "13us")),
        *(x.dt.epoch_us() for x in (t, u, d, length, vs(), ve())),
        *(t + timedelta(days=1), t - timedelta(hours=3), u - u, d + timedelta(1), t - d),
        *(length + length, -length, abs(length), length * 2, 3 * length, length - length),
        *(t > "1970-01-01", u == "1970-01-01T00:00:00Z", d < t, d.between("1969-01-01", u)),
        *(t.cast(str), u.cast(str), d.cast(str), t.cast("date"), u.cast("date"), t.cast(int)),
        *(d.cast("timestamp"), d.cast(int), length.cast(int), n.cast(TIMESTAMP), n.cast(int)),
        n.dt.second(),
        *(vs().dt.hour(), ve().dt.year(), col(VS).dt.weekday(), col(VE) - col(VS), ve() - vs()),
        *(n.cast(TIMESTAMP).cast(pa.timestamp("ns")), length.cast(pa.duration("s"))),
    ]  # fmt: skip
    assert_twins(selected(stream, expressions))


def test_text_converted_to_values() -> None:
    texts = {
        "i": ["12", "-3", "0", "-9223372036854775808", None],
        "f": ["1.5", "-2e3", "nan", "inf", None],
        "b": ["true", "FALSE", "1", "0", None],
        "t": ["2013-01-01T05:00:00Z", "2013-01-01 05:00", "1969-12-31T23:59:59.999999",
              "2013-01-01T05:00:00+05:30", None],
        "d": ["2013-01-01", "1969-12-31", "2000-02-29", "0001-01-01", None],
        "c": ["1.50", "-2.25", "0.00", "99.99", None],
    }  # fmt: skip
    stream = numbered(dict(texts), dict.fromkeys(texts, "string"))
    decimal = col("c").cast(pa.decimal128(6, 2))
    expressions = [
        *(col("i").cast(int), col("f").cast(float), col("f").cast("float32"), col("b").cast(bool)),
        *(col("t").cast("timestamp"), col("t").cast(TIMESTAMP), col("d").cast("date")),
        *(decimal, decimal * 2.0, decimal.round(1), decimal.cast(str), decimal.floor(), -decimal),
        *(decimal % 2, decimal // 2, decimal % -3, decimal // -3, decimal % 0, lit(7) % decimal),
        *(decimal % (decimal - decimal.round(0)), decimal // (decimal - decimal.round(0))),
        col("i").cast(int).cast(pa.decimal128(25, 3)),
    ]
    assert_twins(selected(stream, expressions))


@pytest.mark.parametrize(
    "expr",
    [
        col("s").cast(int),
        col("s").cast("timestamp"),
        col("f").cast(int),
        col("i").cast("int8"),
        col("i").cast("uint8"),
        col("yes").cast(bool),
        col("blank").cast(int),
    ],
    ids=str,
)
def test_values_that_do_not_fit_fail_in_both(expr: Expr) -> None:
    columns = {"s": ["x"], "f": [math.nan], "i": [-129], "yes": ["yes"], "blank": [" 1"]}
    kinds = {"s": "string", "f": "float64", "i": "int64", "yes": "string", "blank": "string"}
    stream = numbered(columns, kinds).select(e=expr)
    with pytest.raises(EvaluationError, match=r"cannot evaluate \w+\.cast"):
        streamed(stream)
    with pytest.raises(BatchDataError, match=r"cannot evaluate \w+\.cast"):
        batched(stream)


def test_floats_as_text_are_rejected() -> None:
    stream = numbered({"f": [1.5]}, {"f": "float64"}).select(e=col("f").cast(str))
    with pytest.raises(UnsupportedInBatchError, match="Spark writes floats differently"):
        batched(stream)


def test_a_cast_stays_after_the_filter_that_protects_it() -> None:
    stream = numbered({"s": ["1", "x", None, "22"]}, {"s": "string"})
    long = stream.filter(col("s").str.contains("^[0-9]+$", regex=True))
    assert assert_twins(long.filter(col("s").cast(int) > 1)).num_rows == 1


def test_choices_and_try_cast() -> None:
    stream = numbered({"s": ["1", "x", None, "22", "300", "1.5", ""]}, {"s": "string"})
    s = col("s")
    is_number = s.str.contains("^[0-9]+$", regex=True)
    number = s.cast(int)
    expressions = [
        *(is_number & (number > 1), ~is_number | (number > 1), s.try_cast(int), s.try_cast(float)),
        *(when(is_number).then(number).otherwise(-1), s.try_cast("date"), s.try_cast(bool)),
        *(s.try_cast(int).try_cast("int8"), s.try_cast(float).try_cast("uint8")),
        coalesce(s.try_cast(int), when(s == "x").then(5).otherwise(None), s.str.length()),
        (is_number & (number > 1)) | ~(is_number & (number < 100)),
    ]
    assert_twins(selected(stream, expressions))
    assert assert_twins(stream.filter(is_number & (number > 1))).num_rows == 2


KINDS = ("int", "float", "bool", "str")


def _can_be_computed(row: Row, expressions: list[Expr]) -> bool:
    """Whether no number overflows."""
    batch = pa.RecordBatch.from_pylist([row], schema=SCHEMA)
    try:
        return all(len(e.evaluate(batch)) == 1 for e in expressions)
    except EvaluationError:
        return False


@examples(
    6,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(rows(), min_size=4, max_size=4).map(lambda parts: [r for p in parts for r in p]),
    st.tuples(*(st.lists(twins(kind), min_size=6, max_size=6) for kind in KINDS)),
)
def test_random_expressions_have_the_same_values_in_spark(
    data: list[Row], made: tuple[list[Twin], ...]
) -> None:
    schema = SCHEMA.insert(0, pa.field("at", pa.int64()))
    expressions = [twin.expr for kind in made for twin in kind]
    data = [row for row in data if _can_be_computed(row, expressions)]
    items = [event(i, at=i, **row) for i, row in enumerate(data)]
    stream = Stream.from_items(schema, items)
    assert all(resolve(e.node, schema).type is not None for e in expressions)
    assert_twins(selected(stream, expressions))
