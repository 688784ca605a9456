"""Checks user code when the query is built, and wraps it for plans.

*It can be sent*: cloudpickle must be able to pickle it, as in pyspark; otherwise the message names
the object that it cannot pickle. *It can be repeated*: neither the code nor any user code that it
reaches (functions it calls, methods, closures, globals, imports inside) may read a clock, a random
number or the like, as far as its bytecode shows. ``deterministic=True`` overrides this check if it
is wrong. ``deterministic=False`` declares that the code cannot be repeated, so its results must be
logged (recovery "strong"). The check cannot see the inside of libraries, names that are made at run
time, and C code.
"""

from __future__ import annotations

import builtins
import datetime
import dis
import functools
import hashlib
import inspect
import os
import platform
import random
import secrets
import socket
import sys
import threading
import time
import types
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from rvertex.user_code.code import UserCode
from rvertex.user_code.sources import is_library, is_users, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Modules whose functions all may return different results in two runs.
_MODULES = (random.__name__, secrets.__name__, "numpy.random")
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_FORBIDDEN: dict[Any, str] = {
    **{getattr(time, name): f"time.{name}" for name in _CLOCKS},
    **{getattr(time, f"{name}_ns"): f"time.{name}_ns" for name in _CLOCKS},
    time.localtime: "time.localtime",
    time.ctime: "time.ctime",
    os.urandom: "os.urandom",
    os.getenv: "os.getenv",
    **{getattr(os, name): f"os.{name}" for name in ("getpid", "getppid", "getlogin", "uname")},
    platform.node: "platform.node",
    socket.gethostname: "socket.gethostname",
    threading.get_ident: "threading.get_ident",
    pc.random: "pyarrow.compute.random",
    **{getattr(uuid, name): f"uuid.{name}" for name in ("uuid1", "uuid4", "getnode")},
    builtins.hash: "hash",
    builtins.id: "id",
}
#: Methods that cannot be repeated, by owner and name: Python creates them at each access, so
#: ``_FORBIDDEN`` cannot find them by identity.
_METHODS = {
    (datetime.datetime, "now"): "datetime.now",
    (datetime.datetime, "utcnow"): "datetime.utcnow",
    (datetime.datetime, "today"): "datetime.today",
    (datetime.date, "today"): "date.today",
    (os, "environ"): "os.environ",
}
_DRAWS = ("now", "random", "lookup")
_MEMBERS_MAX = 1000
_MISSING = object()


def user_code(target: Any, what: str, deterministic: bool | None) -> UserCode:
    """Wrap ``target`` for a plan; ``what``: the method that it was passed to, such as ``apply``.

    Raises:
        InvalidPlanError: it cannot be sent, or cannot be repeated and is not declared so.
    """
    name = name_of(target)
    scan = _Scan()
    scan.visit(target, name)
    if deterministic is None and scan.impure:
        place, culprit = scan.impure[0]
        raise InvalidPlanError(
            f"{what}({name}): {place} uses {culprit}, so a restart could give other "
            "results; in a keyed process or an operator use ctx.now(), ctx.random() or "
            "ctx.lookup() instead, or declare deterministic=False"
        )
    require_sendable(target, what, name)
    identity, sources = f"{name}#{scan.digest}", own_sources(scan.modules)
    return UserCode(identity, target, deterministic is not False, scan.draws, sources)


def own_sources(modules: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return user modules among ``modules`` and their imports, if they are imported by name.

    Each comes with the digest of its file. Code that is pickled by value is part of the plan.
    """
    from pyspark import cloudpickle

    by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    named = [name for name in modules if name not in by_value]
    return tuple((name, digest) for name, digest in sources_of(named) if name not in by_value)


def name_of(target: Any) -> str:
    """Return the name of a function, a class or an object, for messages."""
    if isinstance(target, functools.partial):
        return name_of(target.func)
    name = getattr(target, "__qualname__", type(target).__qualname__)
    return str(name).rpartition("<locals>.")[2]


def require_sendable(target: Any, what: str, name: str) -> None:
    """Raise if cloudpickle cannot pickle the target; name the part that cannot be pickled."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(target)
    except Exception as error:
        blamed = _culprit(target) or f"{type(error).__name__}: {error}"
        raise InvalidPlanError(
            f"{what}({name}): it cannot be sent to the workers: {blamed}; create such objects "
            "inside the function, or in open() of an operator"
        ) from None


def _culprit(target: Any, outer: tuple[Any, ...] = ()) -> str:
    """Return which variable that the code refers to cannot be pickled."""
    from pyspark import cloudpickle

    for kind, variable, value in _held(target):
        if any(value is other for other in outer):
            continue
        try:
            cloudpickle.dumps(value)
        except Exception:
            inner = _culprit(value, (*outer, target)) if callable(value) else ""
            return inner or f"its {kind} {variable!r} is a {type(value).__qualname__}"
    return ""


def _held(target: Any) -> Iterator[tuple[str, str, Any]]:
    """Return the objects that a function, class or object refers to."""
    if isinstance(target, functools.partial):
        yield "function", "func", target.func
        yield from (("argument", str(i), v) for i, v in enumerate(target.args))
        yield from (("argument", k, v) for k, v in target.keywords.items())
    elif isinstance(target, types.MethodType):
        yield "object", "self", target.__self__
    elif isinstance(target, types.FunctionType):
        variables = inspect.getclosurevars(target)
        yield from (("closure variable", k, v) for k, v in variables.nonlocals.items())
        yield from (("global variable", k, v) for k, v in variables.globals.items())
    elif isinstance(target, type):
        for key, value in vars(target).items():
            yield "attribute", key, value
    else:
        yield from (("attribute", k, v) for k, v in getattr(target, "__dict__", {}).items())
        yield "class", type(target).__name__, type(target)


@dataclass
class _Scan:
    """A walk over all user code that a piece of code can reach."""

    #: Place and name of each use of an object whose result cannot be repeated.
    impure: list[tuple[str, str]] = field(default_factory=list)
    #: Whether it reads values through a context, such as ``ctx.now()``.
    draws: bool = False
    _visited: dict[int, Any] = field(default_factory=dict)
    _content: list[str] = field(default_factory=list)
    #: Names that the code imports inside of functions, which may be modules.
    _imports: set[str] = field(default_factory=set)

    @property
    def modules(self) -> set[str]:
        """The modules that it reaches, and the modules of functions and classes that it reaches."""
        modules = set(self._imports)
        for value in self._visited.values():
            if isinstance(value, types.ModuleType):
                modules.add(value.__name__)
            elif isinstance(value, types.FunctionType | type):
                modules.add(str(value.__module__))
        return modules

    @property
    def digest(self) -> str:
        """A hash of the code that was found, equal for equal code."""
        return hashlib.sha256("\n".join(self._content).encode()).hexdigest()[:16]

    def visit(self, value: Any, path: str) -> None:
        """Visit a function, method, class or object, and everything that it reaches."""
        if isinstance(value, functools.partial):
            for kind, variable, held in _held(value):
                self._use(held, variable, f"its {kind} {variable!r}")
            return
        value = inspect.unwrap(value) if isinstance(value, types.FunctionType) else value
        if id(value) in self._visited:
            return
        self._visited[id(value)] = value
        if isinstance(value, types.MethodType):
            self.visit(value.__func__, path)
            self.visit(value.__self__, path)
        elif isinstance(value, types.FunctionType):
            if not is_library(value.__code__.co_filename):
                self._function(value)
        elif isinstance(value, staticmethod | classmethod):
            self.visit(value.__func__, path)
        elif isinstance(value, property):
            for part in (value.fget, value.fset):
                self.visit(part, path)
        elif isinstance(value, type):
            if is_users(value):
                self._class(value)
        elif not isinstance(value, types.ModuleType):
            self._object(value, path)

    def _class(self, value: type) -> None:
        self._content.append(f"class {value.__qualname__}")
        for base in value.__bases__:
            self.visit(base, base.__name__)
        for name, member in vars(value).items():
            if not name.startswith("__") or callable(member):
                self._note(name, member)
                self.visit(member, name)

    def _object(self, value: Any, path: str) -> None:
        kind = type(value)
        if isinstance(value, random.Random) or kind.__module__.startswith("numpy.random"):
            self.impure.append((f"{path!r}", f"a {kind.__qualname__}, whose state is lost"))
            return
        if kind.__module__ == "builtins":
            members = value.values() if isinstance(value, dict) else value
            if isinstance(value, dict | list | tuple) and len(value) <= _MEMBERS_MAX:
                for member in members:
                    self.visit(member, path)
            return
        self.visit(kind, path)
        if is_users(kind):
            for name, held in getattr(value, "__dict__", {}).items():
                self._note(name, held)
                self.visit(held, name)

    def _function(self, function: types.FunctionType) -> None:
        self._content.append(function.__qualname__)
        nonlocals = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        cells = {k: _content_of(cell) for k, cell in nonlocals.items()}
        for held in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._note("default", held)
            self.visit(held, "default")
        self._code(function.__code__, function.__globals__, cells)

    def _code(self, code: types.CodeType, module: dict[str, Any], cells: dict[str, Any]) -> None:
        """Follow every chain ``name.attribute.attribute`` through the instructions."""
        self._content.append(repr((code.co_code, code.co_names, code.co_varnames)))
        local: dict[str, Any] = {}
        imported: Any = _MISSING
        current: Any = _MISSING
        path, package, line = "", "", code.co_firstlineno
        is_lookup = False
        for step in dis.get_instructions(code):
            line = step.positions.lineno or line if step.positions else line
            name = step.argval
            match step.opname:
                case "LOAD_GLOBAL" | "LOAD_NAME":
                    current, path = module.get(name, getattr(builtins, name, _MISSING)), name
                case "LOAD_DEREF" | "LOAD_CLASSDEREF" | "LOAD_FROM_DICT_OR_DEREF":
                    current, path = cells.get(name, local.get(name, _MISSING)), name
                case "LOAD_FAST" | "LOAD_FAST_CHECK" | "LOAD_FAST_BORROW":
                    current, path = local.get(name, _MISSING), name
                case "LOAD_ATTR" | "LOAD_METHOD":
                    self._draw(path, name)
                    current, path = self._attribute(current, name, path), f"{path}.{name}"
                case "IMPORT_NAME":
                    package, imported = name, sys.modules.get(name, _MISSING)
                    self._imports.add(name)
                    current, path = sys.modules.get(name.partition(".")[0], _MISSING), name
                case "IMPORT_FROM":
                    self._imports.add(f"{package}.{name}".strip("."))
                    current, path = self._attribute(imported, name, str(name)), name
                    if current is _MISSING and getattr(imported, "__name__", "").endswith(name):
                        current = imported
                case "SWAP" | "POP_TOP" | "ROT_TWO":
                    continue
                case "STORE_FAST" | "STORE_DEREF":
                    local[name] = current
                    current = _MISSING
                    continue
                case _:
                    current = _MISSING
                    continue
            if is_lookup:  # the result of ctx.lookup() is recorded, so its function may do anything
                is_lookup = False
                continue
            is_lookup = path.endswith(("ctx.lookup", "context.lookup"))
            self._use(current, path, f"line {line} of {code.co_filename}")
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, module, {**cells, **local})
            else:
                self._content.append(_stable(constant))

    def _draw(self, path: str, name: str) -> None:
        self.draws |= name in _DRAWS and path.split(".")[-1] in ("ctx", "context", "_ctx")

    def _attribute(self, owner: Any, name: str, path: str) -> Any:
        if owner is _MISSING:
            return _MISSING
        if isinstance(owner, type):
            for base in owner.__mro__:
                if (base, name) in _METHODS:
                    return _Impure(_METHODS[base, name])
        elif isinstance(owner, types.ModuleType):
            if (owner, name) in _METHODS:
                return _Impure(_METHODS[owner, name])
            if owner.__name__ in _MODULES:
                return _Impure(f"{owner.__name__}.{name}")
        elif type(owner).__module__ != "builtins" and not callable(owner):
            return _MISSING
        return inspect.getattr_static(owner, name, _MISSING) if owner is not None else _MISSING

    def _use(self, value: Any, path: str, place: str) -> None:
        if value is _MISSING:
            return
        if isinstance(value, _Impure):
            self.impure.append((place, value.name))
            return
        forbidden = _forbidden(value)
        if forbidden:
            self.impure.append((place, forbidden))
            return
        before = len(self.impure)
        self._note(path, value)
        self.visit(value, path)
        if len(self.impure) > before and not self.impure[before][0].startswith("line"):
            self.impure[before] = (place, f"{path!r}, {self.impure[before][1]}")

    def _note(self, path: str, value: Any) -> None:
        """Add a plain value that the code reads to the digest."""
        text = _stable(value)
        if text:
            self._content.append(f"{path}={text}")


@dataclass(frozen=True, slots=True)
class _Impure:
    """Replaces, under its name, an object whose result cannot be repeated."""

    name: str


def _forbidden(value: Any) -> str:
    """Return the name of an object whose result cannot be repeated; "" for all others."""
    try:
        reason = _FORBIDDEN.get(value, "")
    except TypeError:  # a value that cannot be hashed is not in the set
        reason = ""
    if reason:
        return reason
    own = getattr(value, "__self__", None)
    if isinstance(value, random.Random):
        return ""
    if isinstance(own, random.Random) or getattr(value, "__module__", None) in _MODULES:
        return f"random.{getattr(value, '__name__', '?')}"
    if type(own).__module__.startswith("numpy.random"):
        return f"numpy.random.{getattr(value, '__name__', '?')}"
    if isinstance(own, type):
        return _METHODS.get((own, getattr(value, "__name__", "")), "")
    return ""


def _stable(value: Any) -> str:
    """Return plain data as text that is the same in every process; "" for anything else."""
    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value)
    if isinstance(value, dict):
        value = [*value.items()]
    if isinstance(value, tuple | list | frozenset) and len(value) <= _MEMBERS_MAX:
        parts = [_stable(member) for member in value]
        if all(parts):
            return f"[{', '.join(sorted(parts) if isinstance(value, frozenset) else parts)}]"
    return ""


def _content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the closure's cell is not filled yet
        return _MISSING
