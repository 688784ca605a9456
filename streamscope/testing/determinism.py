"""Checks in one line that a query's result does not depend on how its input arrives.

:func:`assert_deterministic` runs a query in many ways over the same rows and compares the results.
Each way has a name and a probable cause of a difference, which the failure shows.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from planner.api.stream import Stream
from planner.logical.nodes import UserStep
from planner.logical.traversal import topological
from rstream.errors import UsageError
from rvertex.user_code.code import UserCode
from rvertex.user_code.pickled import pickled
from streamscope.testing.errors import NotDeterministicError, RepeatedDifferentlyError
from streamscope.testing.inputs import Input, bound, input_of
from streamscope.testing.plan_run import Schedule
from streamscope.testing.runs import (
    TOLERANCE,
    answer_of,
    difference,
    greatest,
    in_order,
    other_floats,
    out_of_order,
    reversed_rows,
    with_items,
)
from streamscope.testing.tables import Table, rows
from streamscope.testing.ways.elsewhere import answer_elsewhere, has_user_code
from streamscope.testing.ways.growth import growth_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.logical.nodes import LogicalNode
    from planner.physical.plan import PhysicalPlan
    from streamscope.testing.inputs import BoundQuery, QueryLike
    from streamscope.testing.runs import Answer, Feeds

_NUMBERS = 61
_ROUNDING = (
    "floats differ by rounding: they are added in the order in which they come. Use agg.sum, which "
    "is exact, or collect the values and add them with math.fsum"
)
#: Number of orders of arrival to try with floats of very different magnitudes.
_FLOAT_ORDERS = 4
_AGAIN = "the code uses a clock, a random number, or a variable that outlives the run"
_CUT = "the code depends on how events are cut into batches"
_RESTORED = (
    "state is kept outside of declared fields or snapshots: in a global, a closure or a class"
)
_ORDER = (
    "the code depends on the order of arrival, of rows of one instant, too: give them different "
    "times, or make the result independent of their order"
)
_SHARED = "the code shares state between keys or vertices, or depends on which rows share a vertex"
_ELSEWHERE = (
    "the code depends on its process: the order of a set, hash(), id(), a clock, the time zone"
)
_REMEMBERS = "a variable that outlives the run, such as a cache, depends on which rows come first"
#: Aggregates whose results have no rounding.
_EXACT = {"count", "count_distinct", "min", "max", "first", "last", "user"}
_GROWS = "clear state with a timer, or keep a bounded number of values"


def assert_deterministic(
    query: QueryLike,
    inputs: Mapping[str, Any],
    *,
    runs: int = 12,
    seed: int = 0,
    bounded_state: bool = True,
    other_process: bool = True,
    spark: bool = False,
) -> None:
    """Assert that a query has the same result in any order of arrival and after any failure.

    The rows are divided into any batches, arrive in any order within the delay, are distributed to
    partitions, and pass through several vertices. Vertices are restored between any two items. They
    are also killed, and compute again from an older snapshot. A query with user code also runs in
    new processes with another hash seed, time zone, locale and date, and over its input repeated
    many times. Files and other environment variables are the same in all runs.

    Args:
        query: SQL, a function of streams, a ``Stream`` or a ``Query``.
        inputs: Per name the rows, or a pair of an :class:`Input` (or schema) and rows.
        runs: Number of random runs, in addition to the fixed ones.
        seed: Seed of the random runs; the failure shows it.
        bounded_state: Fail if the state of user code grows with the input.
        other_process: Also run user code in another process, which starts once, in about 1 s.
        spark: Also compare with the batch twin on Spark.

    Raises:
        NotDeterministicError: results differ; it names the run, the difference and the cause.
    """
    __tracebackhide__ = True
    test, found = bound_to_rows(query, inputs)
    ways = _Ways(test, found, seed)
    ways.run(runs, other_process=other_process, bounded_state=bounded_state)
    if spark:
        ways.compare_with_batch()


def bound_to_rows(query: QueryLike, inputs: Mapping[str, Any]) -> tuple[BoundQuery, dict[str, Any]]:
    """Bind a query to its inputs; return it, and the rows of each input.

    Raises:
        UsageError: an input has no rows, or the query does not read it.
    """
    given = {name: _split(value) for name, value in inputs.items()}
    schemas = {name: schema for name, (schema, _) in given.items() if schema is not None}
    test = bound(query, schemas)
    if {*test.names} != {*given}:
        raise UsageError(f"inputs of the query: {', '.join(test.names)}; give rows of each of them")
    return test, {name: found for name, (_, found) in given.items()}


def _split(value: Any) -> tuple[Input | None, Any]:
    """Split an input's value into its schema, if any, and its rows."""
    if isinstance(value, tuple) and len(value) == 2:
        schema, found = value
        return input_of(schema), rows(found) if isinstance(found, str) else found
    found = rows(value) if isinstance(value, str) else value
    if isinstance(found, Table):
        return (input_of(found) if found.types or "time" in found.names else None), found
    return None, found


class _Ways:
    """The ways to run one query over the same rows."""

    def __init__(self, test: BoundQuery, given: dict[str, Any], seed: int) -> None:
        self._test, self._rows, self._seed = test, given, seed
        self.plan = test.plan()
        self._codes = codes_of(self.plan)
        for code in self._codes:
            if not code.is_deterministic:
                raise UsageError(
                    f"{code.name} is declared deterministic=False, so its answers may differ"
                )
        self._feeds = in_order(test, self.plan, given)
        #: Whether built-in aggregates add floats, whose last digits depend on the order.
        self._adds = not is_exact(test.query.plan)
        self._tolerance = TOLERANCE * greatest(self._feeds)
        self._plans: dict[tuple[int, int], PhysicalPlan] = {(1, 1): self.plan}
        #: The plan before its code has run.
        self._pickled = pickled(self.plan)
        self._answer = answer_of(self.plan, self._feeds, Schedule((0,)))

    def run(self, runs: int, *, other_process: bool, bounded_state: bool) -> None:
        """Run the query in all ways, simple ones first.

        Raises:
            NotDeterministicError: a way has another result; raised at the first one.
        """
        plan, feeds = self.plan, self._feeds
        self._check("a second run", _AGAIN, plan, feeds, Schedule((0,)), same=True)
        for k in range(max(1, runs // 6)):
            numbers = self._numbers(k)
            self._check("cut", _CUT, plan, feeds, Schedule(numbers, 4), same=True)
            restored = Schedule(numbers, 3, restores=True)
            self._check("restored", _RESTORED, plan, feeds, restored, same=True)
            killed = Schedule(numbers, 3, restores=True, kills=True)
            self._check("killed", _RESTORED, plan, feeds, killed, same=True)
        if not any(code.draws_values for code in self._codes):
            self._rearranged(runs // 2)
        if other_process and has_user_code(self._pickled):
            self._elsewhere()
        if bounded_state and (growth := growth_of(plan, feeds)) is not None:
            raise NotDeterministicError(f"the state grows without bound. {growth}; {_GROWS}")

    def compare_with_batch(self) -> None:
        """Check that the batch twin on Spark has the same result."""
        # imported late: it starts Java
        from jobmanager.driver.running.batch.validate import collect_batch, compare

        query = with_items(self._test, self._rows)
        differences = compare(self._answer.table, collect_batch(Stream(query.plan.input)))
        if not differences.is_equal:
            raise NotDeterministicError(f"on Spark as a batch: {differences}")

    def _rearranged(self, runs: int) -> None:
        """Try other orders of arrival, partitions and numbers of vertices."""
        reverse = in_order(self._test, self.plan, self._rows, reversed_rows)
        self._check("ties in reverse", _ORDER, self.plan, reverse, Schedule((0,)))
        if not self._adds and self._tolerance:
            self._with_other_floats()
        random = Random(f"{self._seed} widths")
        for k in range(max(2, runs)):
            is_wide = k % 2 == 1
            shape = (random.randint(2, 4), random.randint(1, 3)) if is_wide else (1, 1)
            if shape not in self._plans:
                self._plans[shape] = self._test.plan(parallelism=shape[0], partitions=shape[1])
            plan = self._plans[shape]
            feeds = out_of_order(self._test, plan, self._rows, self._seed * 1_000 + k)
            schedule = Schedule(self._numbers(k), 5, restores=k % 3 == 2)
            what = f"{shape[0]} vertices, {shape[1]} partitions" if is_wide else "another order"
            self._check(what, _SHARED if is_wide else _ORDER, plan, feeds, schedule)

    def _with_other_floats(self) -> None:
        """Try floats of other magnitudes, which reveal user code that adds floats in row order."""
        given = self._test, self.plan, self._rows
        try:
            before = answer_of(self.plan, in_order(*given, other_floats), Schedule((0,)))
        except Exception:
            return  # the user code rejects floats of such magnitudes
        for k in range(_FLOAT_ORDERS):
            feeds = out_of_order(*given, k, other_floats)
            run = partial(answer_of, self.plan, feeds, Schedule((0,)))
            self._compare("floats of other magnitudes", _ROUNDING, run, False, before)

    def _elsewhere(self) -> None:
        what, run = "another process, time zone and date", answer_elsewhere
        whole = Schedule((0,))
        self._compare(what, _ELSEWHERE, lambda: run(self._pickled, self._feeds, whole), True)
        if any(code.draws_values for code in self._codes):
            return
        reverse = in_order(self._test, self.plan, self._rows, reversed_rows)
        what = "a new process, ties in reverse"
        self._compare(what, _REMEMBERS, lambda: run(self._pickled, reverse, whole), False)

    def _numbers(self, k: int) -> tuple[int, ...]:
        random = Random(f"{self._seed} {k}")
        return tuple(random.randrange(1 << 16) for _ in range(_NUMBERS))

    def _check(
        self,
        what: str,
        cause: str,
        plan: PhysicalPlan,
        feeds: Feeds,
        schedule: Schedule,
        *,
        same: bool = False,
    ) -> None:
        self._compare(what, cause, lambda: answer_of(plan, feeds, schedule), same)

    def _compare(
        self,
        what: str,
        cause: str,
        run: Callable[[], Answer],
        same: bool,
        before: Answer | None = None,
    ) -> None:
        """Compare a result with ``before`` or the first one; ``same``: in stream order, too."""
        __tracebackhide__ = True
        head = f"the query gave another answer ({what}, seed={self._seed})"
        try:
            answer = run()
        except RepeatedDifferentlyError as error:
            raise NotDeterministicError(f"{head}: {error}; {cause}") from None
        except Exception as error:
            text = f"the query failed ({what}, seed={self._seed}): {error}; {cause}"
            raise NotDeterministicError(text) from error
        differing = difference(before or self._answer, answer)
        if differing is not None and not (self._adds and differing.is_rounding(self._tolerance)):
            cause = _ROUNDING if differing.is_rounding(0.0) else cause
            raise NotDeterministicError(f"{head} (- first, + then):\n{differing}\n{cause}")
        if same and not answer.is_same_sequence(self._answer):
            raise NotDeterministicError(f"{head}: its events come in another order; {cause}")


def is_exact(plan: LogicalNode) -> bool:
    """Return whether no built-in aggregate adds floats, so that all digits are compared."""
    nodes = topological(plan)
    functions = {a.function for node in nodes for a in getattr(node, "aggregates", ())}
    has_state = "user" in functions or any(isinstance(node, UserStep) for node in nodes)
    return has_state and functions <= _EXACT


def codes_of(plan: PhysicalPlan) -> list[UserCode]:
    """Return the user code of the operators of a plan."""
    codes = []
    for vertex in plan.vertices:
        for spec in vertex.operators:
            values = (getattr(spec, name, None) for name in ("process", "code", "function"))
            codes += [value for value in values if isinstance(value, UserCode)]
    return codes
