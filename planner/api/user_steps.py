"""The methods of streams and grouped streams that run user code.

They are ``apply``, ``transform``, ``process``, ``lookup`` and ``call_once``. Mistakes that the code
itself shows are raised here, at the line that made them. docs/USERCODE.md has examples.
"""

from __future__ import annotations

import dis
import hashlib
import types
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from planner.api.joining.lookups import (
    call_once_spec,
    call_policy,
    declared_schema,
    lookup_spec,
    require_new,
)
from planner.errors import InvalidPlanError
from planner.logical.nodes.user_step import UserStep
from planner.user_code import name_of, user_code
from rstream.errors import UsageError
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.duckdb_query import DuckdbQuery, result_schema
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.transform import UserOperator
from rvertex.user_code.code import ON_ERROR, OnError, UserCode
from rvertex.user_code.keyed.process import KeyedProcess
from rvertex.user_code.keyed.state_fields import state_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from planner.api.sources import SchemaLike
    from planner.durations import Duration
    from planner.logical.nodes import LogicalNode
    from rvertex.operators.user.call_once import OnFailed, OnUnknown
    from rvertex.operators.user.lookup import OnFailure


#: The type of the streams that the methods return: a subclass of the classes in this module.
MadeStream = TypeVar("MadeStream")


class UserSteps(Generic[MadeStream]):
    """The steps of a stream that run user code."""

    __slots__ = ()
    plan: LogicalNode

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def apply(
        self,
        function: Callable[[pa.RecordBatch], Any],
        schema: SchemaLike,
        *,
        on_error: OnError = "fail",
        deterministic: bool | None = None,
        check_cuts: bool = False,
    ) -> MadeStream:
        """Call ``function`` on batches of events; it returns the columns of ``schema`` per row.

        It gets a RecordBatch with ``_vs``, ``_ve`` and all columns. It returns a RecordBatch, a
        Table, a data frame or a dict of columns: one row per input row, or any number of rows with
        a column ``_row``, the index of the input row (from 0, ascending). An output row has the
        lifetime of its input row. Batches may have any size, so results must not depend on it;
        ``check_cuts`` compares the results for several sizes while it runs. ``on_error``, for rows
        on which it raises: "fail", "skip" or "dead_letter".
        """
        code = _code(function, "apply", deterministic)
        made = declared_schema(schema, "apply")
        spec = Apply(code, made, _on_error(on_error), check_cuts)
        return self._stream_of(UserStep(self.plan, spec, None))

    def apply_sql(
        self, query: str, *, on_error: OnError = "fail", check_cuts: bool = False
    ) -> MadeStream:
        """Compute new columns by a query of DuckDB over the table ``rows``.

        The query is one ``SELECT ... FROM rows WHERE ...``. ``rows`` has ``_vs``, ``_ve`` and all
        columns. ``unnest(list)`` after SELECT makes several rows of one, ``WHERE`` drops rows; an
        output row has the lifetime of its input row. Needs the package duckdb.

        Raises:
            UsageError: DuckDB refuses the query, or a result depends on other rows.
        """
        made = declared_schema(result_schema(query, self.plan.schema), "apply_sql")
        digest = hashlib.sha256(query.encode()).hexdigest()[:16]
        code = UserCode(f"apply_sql#{digest}", DuckdbQuery(query))
        spec = Apply(code, made, _on_error(on_error), check_cuts)
        return self._stream_of(UserStep(self.plan, spec, None))

    def lookup(
        self,
        function: Callable[..., Any],
        schema: SchemaLike,
        on: str | Sequence[str] | None = None,
        *,
        concurrency: int = 16,
        batch: int | None = None,
        timeout: Duration = "10s",
        retries: int = 2,
        cache: Duration | None = None,
        on_error: OnFailure = "fail",
    ) -> MadeStream:
        """Add columns that ``function`` fetches from outside, such as from HTTP or a database.

        Results of calls are recorded: a restart or a replay reads them, and does not call again.
        Rows keep their order.

        Args:
            function: A function, a coroutine function, or a class whose objects can be called. It
                returns a dict of the columns, a value if there is one column, or None for nulls.
            schema: The columns that it adds.
            on: The columns that are its arguments. A row where one is null gets nulls, without a
                call. Without ``on`` the argument is the row as a dict.
            concurrency: The most calls in progress at a time, in each partition of the stage.
            batch: The most rows per call; the function then takes a list and returns a list.
            timeout: The longest duration of one attempt.
            retries: Further attempts after an error that may pass, such as a time-out.
            cache: How long a result is reused for rows with the same arguments, in event time.
            on_error: What a row gets after the last failed attempt: "fail", "null", "skip" or
                "dead_letter".
        """
        spec = lookup_spec(
            function, schema, on, call_policy(concurrency, batch, timeout, retries), cache, on_error
        )
        require_new(self.plan, spec.schema, "lookup")
        return self._stream_of(UserStep(self.plan, spec, None))

    def call_once(
        self,
        function: Callable[..., Any],
        schema: SchemaLike,
        key: str | Sequence[str],
        on: str | Sequence[str] | None = None,
        *,
        concurrency: int = 16,
        timeout: Duration = "30s",
        unknown: OnUnknown = "fail",
        on_error: OnFailed = "dead_letter",
    ) -> MadeStream:
        """Add columns that one call of ``function`` per key returns; no call is made twice.

        A ledger records each call before it begins and after it ends, so restarts and further rows
        of the key use its result. The ledger grows with the number of keys.

        Args:
            function: As for ``lookup``; it may change something outside, such as charge a card.
            schema: The columns that it adds.
            key: The columns that identify a call. Rows where one is null count as failed.
            on: The columns that are its arguments; without ``on`` it is the row as a dict.
            concurrency: The most calls in progress at a time, in each partition of the stage.
            timeout: The longest duration of a call. A longer one failed, and is not made again.
            unknown: What to do if a crash left a call without a result: "fail", "skip" or "retry".
            on_error: What a row gets if its call fails: "null", "skip" or "dead_letter".
        """
        policy = call_policy(concurrency, None, timeout, 0)
        spec = call_once_spec(function, schema, key, on, policy, unknown, on_error)
        require_new(self.plan, spec.schema, "call_once")
        return self._stream_of(UserStep(self.plan, spec, spec.keys))

    def process(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error: a process has state per key, so it needs ``group_by``."""
        raise InvalidPlanError(
            "process(...) works per key: write .group_by('key').process(...); for code without "
            "keys there are apply(...) and transform(...)"
        )

    def agg(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error: a stream has no end, so an aggregate needs a window."""
        raise InvalidPlanError(
            "agg(...) needs a window: add .window(...) before it, such as "
            ".group_by('key').window(tumbling('10s')), or .window(...) alone without keys"
        )

    def transform(
        self,
        operator: Any,
        schema: SchemaLike,
        *,
        on_error: OnError = "fail",
        deterministic: bool | None = None,
    ) -> MadeStream:
        """Run your own operator over the whole stream, in one vertex; see docs/USERCODE.md."""
        spec = _operator(operator, schema, on_error, deterministic)
        return self._stream_of(UserStep(self.plan, spec, ()))


class GroupedUserSteps(Generic[MadeStream]):
    """The steps of a grouped stream that run user code."""

    __slots__ = ()
    plan: LogicalNode
    keys: tuple[str, ...]

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def process(
        self,
        process: type[KeyedProcess],
        *,
        on_error: OnError = "fail",
        deterministic: bool | None = None,
    ) -> MadeStream:
        """Run one object of ``process`` per key, with state and timers; see :class:`KeyedProcess`.

        The output columns are the keys, then those of ``process.output``.
        """
        spec = _processing(self.keys, process, on_error, deterministic)
        return self._stream_of(UserStep(self.plan, spec, self.keys))

    def transform(
        self,
        operator: Any,
        schema: SchemaLike,
        *,
        on_error: OnError = "fail",
        deterministic: bool | None = None,
    ) -> MadeStream:
        """Run your own operator; all events of a key are in one vertex."""
        spec = _operator(operator, schema, on_error, deterministic)
        return self._stream_of(UserStep(self.plan, spec, self.keys))


def _processing(
    keys: tuple[str, ...], process: Any, on_error: OnError, deterministic: bool | None
) -> KeyedProcessing:
    if not isinstance(process, type) or not issubclass(process, KeyedProcess):
        raise InvalidPlanError(f"process() takes a subclass of KeyedProcess, not {process!r}")
    name = name_of(process)
    if not keys:
        raise InvalidPlanError(f"process({name}): it needs a key, as .group_by('user')")
    if process.on_event is KeyedProcess.on_event:
        raise InvalidPlanError(f"process({name}): it has no method on_event(self, event, ctx)")
    if process.__init__ is not object.__init__:
        raise InvalidPlanError(
            f"process({name}): remove its __init__; the defaults of the fields are the "
            "state of a new key, and attributes without a type are shared by all keys"
        )
    try:
        fields = state_fields(process, KeyedProcess)
    except UsageError as error:
        reason = str(error).removeprefix(f"{name}: ")
        raise InvalidPlanError(f"process({name}): {reason}") from None
    undeclared = _undeclared_field(process, KeyedProcess, {f.name for f in fields})
    if undeclared:
        raise InvalidPlanError(f"process({name}): {undeclared}")
    if process.output is KeyedProcess.output:
        raise InvalidPlanError(
            f"process({name}): it declares no output; declare the columns of ctx.emit, "
            f'for example output = {{"n": "int64"}}, or output = {{}} for rows with the key '
            "alone"
        )
    made = declared_schema(process.output, f"process({name}): output", may_be_empty=True)
    for column in made.names:
        if column in keys:
            raise InvalidPlanError(f"process({name}): a key already has the name {column!r}")
    code = _code(process, "process", deterministic)
    return KeyedProcessing(keys, code, fields, made, _on_error(on_error))


def _operator(
    operator: Any, schema: SchemaLike, on_error: OnError, deterministic: bool | None
) -> UserOperator:
    name = name_of(operator)
    for method in ("execute", "get_snapshot", "load"):
        if not callable(getattr(operator, method, None)):
            raise InvalidPlanError(f"transform({name}): it has no method {method!r}")
    code = _code(operator, "transform", deterministic)
    return UserOperator(code, declared_schema(schema, "transform"), _on_error(on_error))


def _code(target: Any, what: str, deterministic: bool | None) -> UserCode:
    if not callable(target) and what == "apply":
        raise InvalidPlanError(f"{what}() takes a function, not {target!r}")
    return user_code(target, what, deterministic)


def _on_error(policy: str) -> OnError:
    for known in ON_ERROR:
        if policy == known:
            return known
    raise InvalidPlanError(f'on_error={policy!r}: choose "fail", "skip" or "dead_letter"')


def _undeclared_field(process: type, base: type, declared: set[str]) -> str:
    """Return the attributes that a process sets but does not declare as fields; "" if none."""
    for owner in process.__mro__:
        if not issubclass(owner, base) or owner is base:
            continue
        for member in vars(owner).values():
            if not isinstance(member, types.FunctionType) or not member.__code__.co_argcount:
                continue
            for name in _set_on_self(member):
                if name not in declared:
                    return (
                        f"{owner.__name__}.{member.__name__} sets self.{name}, which is no "
                        f"field; declare it with its type in the class, as {name}: int = 0"
                    )
    return ""


def _single_loads(name: str, argval: Any) -> list[tuple[str, Any]]:
    """Split a bytecode instruction that merges two loads or stores, as Python 3.12 writes them."""
    name = name.removesuffix("_BORROW").replace("_BORROW_", "_").removesuffix("_CHECK")
    if name in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST"):
        first, second = argval
        return [(name.removesuffix("_LOAD_FAST"), first), ("LOAD_FAST", second)]
    return [(name, argval)]


def _set_on_self(method: types.FunctionType) -> Iterator[str]:
    """Return the attributes that ``self.x = ...`` and ``self.x += ...`` set, in order."""
    loads_me = ("LOAD_FAST", method.__code__.co_varnames[0])
    instructions = dis.get_instructions(method)
    steps = [load for step in instructions for load in _single_loads(step.opname, step.argval)]
    own: set[str] = set()
    for two_before, before, (code, name) in zip(steps, steps[1:], steps[2:], strict=False):
        if code == "LOAD_ATTR" and before[0] == "COPY" and two_before == loads_me:
            own.add(name)
        is_own = before == loads_me or (before[0] == "SWAP" and name in own)
        if code == "STORE_ATTR" and is_own:
            yield name
