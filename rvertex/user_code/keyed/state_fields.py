"""The typed state of a key: the fields that a process declares, and code compiled for them.

A field is ``int`` (64 bits), ``float``, ``str``, ``bytes``, ``bool``, any of these ``| None``, or a
``list`` of one of them. Each key has one object of a *slot class*, a subclass of the user's class
with ``__slots__``. The type check after every call (``fits``) is compiled for the fields, as
``dataclasses`` compiles ``__init__``, because a loop over field descriptions would take longer than
the user's code.

Invariants: (1) a value that ``fits`` has one Arrow form, and converts back to an equal value of the
same type, so a key cannot detect that its state went through a snapshot; (2) a slot that
``is_idle`` cannot be distinguished from a new slot.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin

import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.user_code.errors import UserResultError

if TYPE_CHECKING:
    from collections.abc import Callable

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
#: Python compares integers below this number fastest: they have one internal digit.
_DIGIT = 2**30
#: Attributes of every slot besides its fields; see rvertex/user_code/keyed/state.py and
#: rvertex/user_code/keyed/timers.py.
_OWN = ("_key", "_row", "_is_dirty", "_timers", "_next_at", "_name", "_queued")
TYPES = "int, float, str, bytes, bool, each also as `T | None`, or list[T]"


@dataclass(frozen=True, slots=True)
class StateField:
    """One field. ``default``: value for a new key. A list starts empty."""

    name: str
    kind: str
    is_list: bool
    is_optional: bool
    default: Any

    @property
    def type(self) -> pa.DataType:
        """Return its Arrow type in a snapshot."""
        value = _KINDS[_NAMES[self.kind]]  # type: ignore[index]
        return pa.list_(value) if self.is_list else value

    @property
    def shown(self) -> str:
        """Return its type as the user wrote it."""
        text = f"list[{self.kind}]" if self.is_list else self.kind
        return f"{text} | None" if self.is_optional else text


def state_fields(process: type, base: type) -> tuple[StateField, ...]:
    """Return the fields that ``process`` declares, after the fields of its base classes.

    Raises:
        UserResultError: a type that is not supported, or a default that does not match it.
    """
    fields: dict[str, StateField] = {}
    for owner in reversed(process.__mro__):
        if not issubclass(owner, base) or owner is base:
            continue
        for name, annotation in inspect.get_annotations(owner).items():
            field = _field(process.__qualname__, name, annotation, owner)
            if field is not None:
                fields[name] = field
    return tuple(fields.values())


def _field(process: str, name: str, annotation: Any, owner: type) -> StateField | None:
    if isinstance(annotation, str) and annotation.replace("typing.", "").startswith("ClassVar"):
        return None
    if annotation is ClassVar or get_origin(annotation) is ClassVar:
        return None
    if name.startswith("_"):
        raise UserResultError(
            process, f"state field {name!r}: a name has no underscore at its start"
        )
    kind, is_list, is_optional = _parsed(process, name, annotation)
    missing = object()
    default = owner.__dict__.get(name, missing)
    if default is missing:
        default = None if is_optional else None if is_list else _DEFAULTS[kind]
    elif is_list:
        raise UserResultError(
            process, f"state field {name!r}: a list starts empty: remove its default"
        )
    elif type(default) is int and kind is float:
        default = float(default)
    field = StateField(name, kind.__name__, is_list, is_optional, default)
    if not is_list and not _fits_value(field, default):
        reason = f"state field {name!r}: the default {default!r} is not {field.shown}"
        raise UserResultError(process, reason)
    return field


def _parsed(process: str, name: str, annotation: Any) -> tuple[type, bool, bool]:
    """Return the element type, whether it is a list, and whether None is allowed."""
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
        raise UserResultError(process, f"state field {name!r}: its type must be one of {TYPES}")
    return annotation, is_list, is_optional


def _fits_value(field: StateField, value: Any) -> bool:
    if value is None:
        return field.is_optional
    if type(value).__name__ != field.kind:
        return False
    return field.kind != "int" or _INT_LOW <= value <= _INT_HIGH


class SlotCode:
    """The slot class of a process, and the functions compiled for its fields."""

    def __init__(self, process: type, fields: tuple[StateField, ...]) -> None:
        self.fields = fields
        names = tuple(f.name for f in fields)
        own = {"__slots__": (*names, *_OWN)}
        self.slot: type = type(process.__name__, (process,), own)
        #: Global names of the compiled code, and their values.
        self.scope: dict[str, Any] = {f"default_{f.name}": f.default for f in fields}
        self.scope |= {"Slot": self.slot, "new": object.__new__, "never": INF_TIME}
        self.scope["copysign"] = math.copysign
        scope = self.scope
        #: Makes a slot for a key.
        self.make: Callable[[Any], Any] = compiled(
            "make", "key", [*self.make_lines, "s._key = key", "return s"], scope
        )
        #: Returns whether all fields have their declared types.
        self.fits: Callable[[Any], bool] = compiled(
            "fits", "s", [f"return {self.fits_test}"], scope
        )
        #: Returns, per slot, whether a field differs from its first value, or a timer is set.
        self.alive: Callable[[list[Any]], list[bool]] = compiled(
            "alive", "slots", [f"return [not ({self.idle_test}) for s in slots]"], scope
        )
        #: Returns one list of values per field, for many slots.
        self.values: Callable[[list[Any]], tuple[list[Any], ...]] = compiled(
            "values", "slots", [f"return ({_lists(fields)})"], scope
        )
        #: Copies the fields of a slot; and restores them.
        self.capture: Callable[[Any], tuple[Any, ...]] = compiled(
            "capture", "s", [f"return ({_copies(fields)})"], scope
        )
        self.restore: Callable[[Any, tuple[Any, ...]], None] = compiled(
            "restore", "s, values", [f"({_targets(fields)}) = values"] if fields else [], scope
        )

    @property
    def fits_test(self) -> str:
        """Python expression: whether the fields of a slot ``s`` have their declared types."""
        return " and ".join(f"({_fit(f)})" for f in self.fields) or "True"

    @property
    def idle_test(self) -> str:
        """Python expression: whether a slot ``s`` equals a new slot. Tests the timer first."""
        return " and ".join(["s._next_at == never", *map(_default_test, self.fields)])

    @property
    def make_lines(self) -> list[str]:
        """Python statements that create a new slot ``s`` without a key."""
        own = ["s._timers = None", "s._next_at = s._queued = never", "s._name = ''"]
        own += ["s._row = -1", "s._is_dirty = False"]
        return ["s = new(Slot)", *own, *(f"s.{f.name} = {_initial(f)}" for f in self.fields)]

    @property
    def renew_lines(self) -> list[str]:
        """Python statements that reset a removed slot ``s`` to a new slot, except for its key.

        Undeclared attributes that user code has set are deleted, so no other key sees them.
        """
        lists = [f"s.{f.name} = []" for f in self.fields if f.is_list]
        has_more = bool(self.slot.__dictoffset__)
        return [*lists, *(["if s.__dict__: s.__dict__.clear()"] if has_more else [])]

    def misfit(self, slot: Any) -> str:
        """Return which field of a slot has a wrong type, as part of a message."""
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
        """Return one array per field for many slots; values are not converted.

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
        except MemoryError:
            raise
        except (pa.ArrowException, ValueError) as error:
            reason = f"state field {name!r} cannot be kept: {error}"
            raise UserResultError(self.slot.__qualname__, reason) from None


def compiled(name: str, parameters: str, lines: list[str], scope: dict[str, Any]) -> Any:
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    namespace = dict(scope)
    exec(compile(f"def {name}({parameters}):\n{body}\n", "<keyed state>", "exec"), namespace)
    return namespace[name]


def _initial(field: StateField) -> str:
    return "[]" if field.is_list else f"default_{field.name}"


def _fit(field: StateField) -> str:
    value = f"s.{field.name}"
    if field.is_list:
        last = f"{value}[-1]"
        return f"type({value}) is list and (not {value} or {_type_test(field, last)})"
    test = _type_test(field, value)
    return f"{value} is None or ({test})" if field.is_optional else test


def _type_test(field: StateField, value: str) -> str:
    test = f"type({value}) is {field.kind}"
    if field.kind != "int":
        return test
    in_range = f"-{_DIGIT} < {value} < {_DIGIT} or {_INT_LOW} <= {value} <= {_INT_HIGH}"
    return f"{test} and ({in_range})"


def _lists(fields: tuple[StateField, ...]) -> str:
    return "".join(f"[s.{f.name} for s in slots], " for f in fields)


def _default_test(field: StateField) -> str:
    """Return a test for equality with the default that also distinguishes 0.0 from -0.0."""
    value, default = f"s.{field.name}", f"default_{field.name}"
    if field.is_list:
        return f"not {value}"
    if field.kind == "float" and field.default == 0:
        same_sign = f"copysign(1.0, {value}) == {math.copysign(1.0, field.default)}"
        return f"({value} is {default} or ({value} == 0.0 and {same_sign}))"
    how = "is" if field.default is None or field.default != field.default else "=="
    return f"{value} {how} {default}"


def _copies(fields: tuple[StateField, ...]) -> str:
    return "".join(f"s.{f.name}{'[:]' if f.is_list else ''}, " for f in fields)


def _targets(fields: tuple[StateField, ...]) -> str:
    return "".join(f"s.{f.name}, " for f in fields)
