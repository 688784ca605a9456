"""The typed state of a key: which fields a process declares, and code made for just these fields.

A field is ``int`` (64 bits), ``float``, ``str``, ``bytes``, ``bool``, any of these ``| None``, or a
``list`` of one of them. Per key there is one object of a *slot class*, a subclass of the user's
with ``__slots__``. What runs after every call (``fits``) is compiled for the fields, as
``dataclasses`` compiles ``__init__``: a loop over descriptions costs more than the user's code.

Invariants: (1) a value that ``fits`` has one Arrow form and comes back from it equal, type
included, so a key cannot tell whether its state went through a snapshot; (2) a slot that
``is_idle`` cannot be told from a new one.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin

import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.user_errors import UserResultError

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Rows, keys, times, and where the number of the event at hand is kept.
    _Loop = Callable[[Any, Any, Any, list[int]], None]

_KINDS: dict[type, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
}
_DEFAULTS: dict[type, Any] = {int: 0, float: 0.0, str: "", bytes: b"", bool: False}
_NAMES = {kind.__name__: kind for kind in _KINDS} | {"list": list, "None": None}
_INT_LOW, _INT_HIGH = -(2**63), 2**63 - 1
TYPES = "int, float, str, bytes, bool, each also as `T | None`, or list[T]"


@dataclass(frozen=True, slots=True)
class StateField:
    """One field. ``default`` is what a new key has; a list begins empty."""

    name: str
    kind: str
    is_list: bool
    is_optional: bool
    default: Any

    @property
    def type(self) -> pa.DataType:
        """Its type in a snapshot."""
        value = _KINDS[_NAMES[self.kind]]  # type: ignore[index]
        return pa.list_(value) if self.is_list else value

    @property
    def shown(self) -> str:
        """Its type as the user wrote it."""
        text = f"list[{self.kind}]" if self.is_list else self.kind
        return f"{text} | None" if self.is_optional else text


def state_fields(process: type, base: type) -> tuple[StateField, ...]:
    """The fields that ``process`` declares, those of its bases first.

    Raises:
        UserResultError: a type that state cannot have, or a default that does not fit.
    """
    found: dict[str, StateField] = {}
    for owner in reversed(process.__mro__):
        if not issubclass(owner, base) or owner is base:
            continue
        for name, annotation in inspect.get_annotations(owner).items():
            field = _field(process.__qualname__, name, annotation, owner)
            if field is not None:
                found[name] = field
    return tuple(found.values())


def _field(process: str, name: str, annotation: Any, owner: type) -> StateField | None:
    if isinstance(annotation, str) and annotation.replace("typing.", "").startswith("ClassVar"):
        return None
    if annotation is ClassVar or get_origin(annotation) is ClassVar:
        return None
    if name.startswith("_"):
        raise UserResultError(process, f"state field {name!r}: names begin without an underscore")
    kind, is_list, is_optional = _parsed(process, name, annotation)
    missing = object()
    default = owner.__dict__.get(name, missing)
    if default is missing:
        default = None if is_optional else None if is_list else _DEFAULTS[kind]
    elif is_list:
        raise UserResultError(process, f"state field {name!r}: a list begins empty, without '='")
    elif type(default) is int and kind is float:
        default = float(default)
    field = StateField(name, kind.__name__, is_list, is_optional, default)
    if not is_list and not _fits_value(field, default):
        reason = f"state field {name!r}: the default {default!r} is not {field.shown}"
        raise UserResultError(process, reason)
    return field


def _parsed(process: str, name: str, annotation: Any) -> tuple[type, bool, bool]:
    """Element type, whether it is a list of them, and whether None is a value."""
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, {"__builtins__": {}}, dict(_NAMES))
        except Exception:
            annotation = None
    members = [a for a in get_args(annotation) if a is not type(None)]
    is_optional = type(None) in get_args(annotation) and len(members) == 1
    if is_optional:
        (annotation,) = members
    is_list = get_origin(annotation) is list
    if is_list:
        (annotation,) = get_args(annotation)
    if annotation not in _KINDS or (is_list and is_optional):
        raise UserResultError(process, f"state field {name!r}: a type of state is {TYPES}")
    return annotation, is_list, is_optional


def _fits_value(field: StateField, value: Any) -> bool:
    if value is None:
        return field.is_optional
    if type(value).__name__ != field.kind:
        return False
    return field.kind != "int" or _INT_LOW <= value <= _INT_HIGH


#: One call per event. ``at`` holds the number of the event at hand, for whoever asks.
_CALL = """\
for row, key, time in zip(rows, keys, times):
    if next_cti[0] <= time:
        pass_ctis(time)
    s = find(key)
    if s is None:
        s = add(key)
    else:
        if not s._is_dirty:
            s._is_dirty = True
            changed(s)
        if s._next_at <= time:
            fire_own(s, time)
    ctx._current = row
    ctx._slot = s
    on_event(s, row, ctx)
    if not ({fits}):
        refuse(s)
    at[0] += 1"""


class SlotCode:
    """The slot class of a process, and the functions compiled for its fields."""

    def __init__(self, process: type, fields: tuple[StateField, ...]) -> None:
        self.fields = fields
        names = tuple(f.name for f in fields)
        own = {"__slots__": (*names, "_key", "_timers", "_next_at", "_number", "_is_dirty")}
        self.slot: type = type(process.__name__, (process,), own)
        scope = {f"default_{f.name}": f.default for f in fields}
        scope |= {"Slot": self.slot, "new": object.__new__, "nan": float("nan"), "never": INF_TIME}
        #: A slot for a key.
        self.make: Callable[[Any], Any] = _compiled("make", "key", _make_lines(fields), scope)
        #: Whether all fields are of their types.
        self.fits: Callable[[Any], bool] = _compiled(
            "fits", "s", [f"return {_fits_test(fields)}"], scope
        )
        #: Of many slots: which have a field that is not as in a new one, or a timer.
        self.alive: Callable[[list[Any]], list[bool]] = _compiled(
            "alive", "slots", [f"return [not ({_idle_test(fields)}) for s in slots]"], scope
        )
        #: Of many slots: the values of each field.
        self.values: Callable[[list[Any]], tuple[list[Any], ...]] = _compiled(
            "values", "slots", [f"return ({_lists(fields)})"], scope
        )
        #: Set all fields to those of a new slot.
        self.clear: Callable[[Any], None] = _compiled("clear", "s", _clear_lines(fields), scope)
        #: A copy of the fields, and the way back.
        self.capture: Callable[[Any], tuple[Any, ...]] = _compiled(
            "capture", "s", [f"return ({_copies(fields)})"], scope
        )
        self.restore: Callable[[Any, tuple[Any, ...]], None] = _compiled(
            "restore", "s, values", [f"({_targets(fields)}) = values"] if fields else [], scope
        )

    def caller(self, **scope: Any) -> _Loop:
        """The loop over events, compiled with the test of the fields in it.

        ``scope``: see :meth:`rvertex.operators.keyed_process.KeyedProcessOperator._call`.
        """
        scope |= {"on_event": self.slot.on_event, "zip": zip}  # type: ignore[attr-defined]
        lines = _CALL.format(fits=_fits_test(self.fields)).splitlines()
        loop: _Loop = _compiled("call", "rows, keys, times, at", lines, scope)
        return loop

    def misfit(self, slot: Any) -> str:
        """Which field of a slot that does not fit is to blame, in words."""
        for field in self.fields:
            value = getattr(slot, field.name, None)
            if field.is_list and isinstance(value, list):
                bad = [v for v in value[-1:] if not _fits_value(field, v)]
                if bad:
                    return f"state field {field.name!r} is {field.shown}, but has {bad[0]!r} in it"
            elif field.is_list or not _fits_value(field, value):
                return f"state field {field.name!r} is {field.shown}, not {value!r}"
        return "a state field does not have its declared type"

    def columns(self, slots: list[Any]) -> list[pa.Array]:
        """The fields of many slots; nothing is converted on the way.

        Raises:
            UserResultError: a list has an element of another type than declared.
        """
        pairs = zip(self.fields, self.values(slots), strict=True)
        return [self._column(field, values) for field, values in pairs]

    def _column(self, field: StateField, values: list[Any]) -> pa.Array:
        name = field.name
        if field.is_list:
            kind = _NAMES[field.kind]
            wrong = next((v for row in values for v in row if type(v) is not kind), None)
            if wrong is not None:
                reason = f"state field {name!r} is {field.shown}, but has {wrong!r} in it"
                raise UserResultError(self.slot.__qualname__, reason)
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, ValueError) as error:
            reason = f"state field {name!r} cannot be kept: {error}"
            raise UserResultError(self.slot.__qualname__, reason) from None


def _compiled(name: str, parameters: str, lines: list[str], scope: dict[str, Any]) -> Any:
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    namespace = dict(scope)
    exec(compile(f"def {name}({parameters}):\n{body}\n", "<keyed state>", "exec"), namespace)
    return namespace[name]


def _initial(field: StateField) -> str:
    return "[]" if field.is_list else f"default_{field.name}"


def _clear_lines(fields: tuple[StateField, ...]) -> list[str]:
    return [f"s.{f.name} = {_initial(f)}" for f in fields]


def _make_lines(fields: tuple[StateField, ...]) -> list[str]:
    own = ["s._key = key", "s._timers = None", "s._next_at = never"]
    own += ["s._number = -1", "s._is_dirty = False"]
    return ["s = new(Slot)", *own, *_clear_lines(fields), "return s"]


def _fits_test(fields: tuple[StateField, ...]) -> str:
    return " and ".join(f"({_fit(f)})" for f in fields) or "True"


def _fit(field: StateField) -> str:
    value = f"s.{field.name}"
    if field.is_list:
        last = f"{value}[-1]"
        return f"type({value}) is list and (not {value} or {_type_test(field, last)})"
    test = _type_test(field, value)
    return f"{value} is None or ({test})" if field.is_optional else test


def _type_test(field: StateField, value: str) -> str:
    test = f"type({value}) is {field.kind}"
    return f"{test} and {_INT_LOW} <= {value} <= {_INT_HIGH}" if field.kind == "int" else test


def _idle_test(fields: tuple[StateField, ...]) -> str:
    """Floats by identity: 0.0 and -0.0 are equal and not the same."""
    tests = ["(s._timers is None or all(at is None for at in s._timers[1::3]))"]
    for f in fields:
        if f.is_list:
            tests.append(f"not s.{f.name}")
        else:
            how = "is" if f.kind == "float" or f.default is None else "=="
            tests.append(f"s.{f.name} {how} default_{f.name}")
    # The timers last: that a field has changed is the quicker test.
    return " and ".join([*tests[1:], tests[0]])


def _lists(fields: tuple[StateField, ...]) -> str:
    return "".join(f"[s.{f.name} for s in slots], " for f in fields)


def _copies(fields: tuple[StateField, ...]) -> str:
    return "".join(f"s.{f.name}{'[:]' if f.is_list else ''}, " for f in fields)


def _targets(fields: tuple[StateField, ...]) -> str:
    return "".join(f"s.{f.name}, " for f in fields)
