"""Results per dictionary value equal the results per row."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from planner import Expr, col, lit, when
from planner.api.udf import udf
from planner.errors import EvaluationError
from planner.expressions.nodes import Call, Node, evaluate_all, resolve
from planner.expressions.per_value import PerValue, as_dictionary, by_value
from rstream.items.dictionaries import forget, join_batches, plain_array
from rstream.items.hashing import hash_column

PLAIN = pa.schema([("word", pa.string()), ("n", pa.int64())])
CARRIED = pa.schema([("word", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())])
WORD = col("word")
EXPRESSIONS: tuple[Expr, ...] = (
    WORD == "a/b",
    WORD.is_null(),
    WORD.str.upper(),
    WORD.str.length() + col("n"),
    when(WORD.str.starts_with("a")).then(WORD.str.upper()).otherwise(WORD),
    when(col("n") > 2).then(WORD.str.lower()).otherwise(lit("none")),
    WORD.fill_null("nothing"),
    (WORD > "b") & (col("n") < 3),
    WORD.str.upper().is_in(["A/B", ""]),
)


def computed(node: Node, batch: pa.RecordBatch, carried: set[str]) -> pa.Array:
    return evaluate_all([as_dictionary(by_value(resolve(node, PLAIN), carried))], batch)[0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, "", "a/b", "a/c", "B", "long/text/of/parts"]), st.integers(0, 5)
        ),
        max_size=30,
    ),
    st.sampled_from(EXPRESSIONS),
    st.integers(0, 30),
)
def test_evaluation_per_value_has_the_same_result(
    rows: list[tuple[str | None, int]], expression: Expr, cut: int
) -> None:
    words = pa.array([w for w, _ in rows], pa.string())
    n = pa.array([n for _, n in rows], pa.int64())
    plain = pa.RecordBatch.from_arrays([words, n], schema=PLAIN)
    carried = pa.RecordBatch.from_arrays([words.dictionary_encode(), n], schema=CARRIED)
    for batch, other in ((plain, carried), (plain.slice(cut), carried.slice(cut))):
        expected = computed(expression.node, batch, set())
        found = computed(expression.node, other, {"word"})
        assert plain_array(found).equals(expected)
        again = computed(expression.node, batch, {"word"})
        assert again.type.equals(found.type)
        assert plain_array(again).equals(expected)


def test_computed_text_keeps_one_dictionary() -> None:
    words = pa.array(["a", "A", "b", None] * 5).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([words, pa.array(range(20))], schema=CARRIED)
    upper = as_dictionary(by_value(resolve(WORD.str.upper().node, PLAIN), {"word"}))
    first, second = (upper.evaluate(b) for b in (batch.slice(0, 9), batch.slice(9)))
    assert first.dictionary.to_pylist() == ["A", "B"]
    assert first.dictionary.buffers()[2].address == second.dictionary.buffers()[2].address
    assert pa.concat_arrays([first, second]).to_pylist() == ["A", "A", "B", None] * 5


def test_a_value_without_rows_does_not_fail() -> None:
    number = WORD.cast("int64").node
    words = pa.array(["1", "x", "3"]).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([words, pa.array(range(3))], schema=CARRIED)
    kept = batch.filter(pa.array([True, False, True]))
    assert computed(number, kept, {"word"}).to_pylist() == [1, 3]
    with pytest.raises(EvaluationError):
        computed(number, batch, {"word"})


def test_the_cached_result_for_zero_is_not_used_for_negative_zero() -> None:
    words = pa.array(["a", "b"]).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([words, pa.array(range(2))], schema=CARRIED)
    zeros = [when(WORD == "a").then(lit(zero)).otherwise(lit(1.0)).node for zero in (0.0, -0.0)]
    assert [str(computed(zero, batch, {"word"})[0]) for zero in zeros] == ["0.0", "-0.0"]


@udf(returns="string")
def shout(words: pa.Array) -> pa.Array:
    return pa.array([None if w is None else f"{w.as_py()}!" for w in words])


def test_which_expressions_are_computed_per_value() -> None:
    shown = by_value(resolve(((WORD == "a") & (col("n") == 1)).node, PLAIN), {"word"})
    assert isinstance(shown, Call)
    assert isinstance(shown.args[0], PerValue)
    assert not isinstance(shown.args[1], PerValue)
    assert shown.columns() == ("word", "n")
    assert str(shown) == str(((WORD == "a") & (col("n") == 1)).node)
    of_user = by_value(resolve(shout(WORD).node, PLAIN), {"word"})
    assert not isinstance(of_user, PerValue)


def test_cached_results_of_dictionaries_can_be_cleared() -> None:
    forget()
    gc.collect()
    before = pa.total_allocated_bytes()
    texts = [pa.array([f"{k} {i:0100d}" for i in range(2000)]).dictionary_encode() for k in "ab"]
    batches = [pa.RecordBatch.from_arrays([text], names=["word"]) for text in texts]
    computed((WORD == "a").node, batches[0], {"word"})
    hash_column(texts[0])
    join_batches(batches)
    del texts, batches
    gc.collect()
    assert pa.total_allocated_bytes() - before > 400_000
    forget()
    assert pa.total_allocated_bytes() - before < 100_000
