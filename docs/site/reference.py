"""The reference of all public names, as Markdown, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import types
from typing import TYPE_CHECKING, Any

import streamscope
import streamscope.testing

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("rstream", "rvertex", "planner", "jobmanager", "streamscope")
WIDTH = 92
SECTIONS = {
    "Sources and streams": ("Stream", "GroupedStream", "WindowedStream", "Query", "event", "cti"),
    "Expressions": ("col", "lit", "when", "coalesce", "vs", "ve", "Expr"),
    "Windows and aggregates": (
        *("hopping", "tumbling", "snapshot", "session", "count_window", "Window", "agg"),
    ),
    "Code of your own": ("udf", "Udf", "KeyedProcess", "KeyedContext", "Timer"),
    "SQL and plans": ("sql", "explain"),
    "Jobs": (
        *("run", "resume", "collect", "collect_batch", "Job", "JobConfig", "Comparison"),
        *("read_late", "read_dead_letters"),
    ),
}


def reference() -> str:
    """The whole page."""
    public = {name: getattr(streamscope, name) for name in streamscope.__all__ if name[0] != "_"}
    errors = [name for name, value in public.items() if is_error(value)]
    grouped = {name for names in SECTIONS.values() for name in names} | set(errors)
    streams = [name for name in public if name not in grouped]
    sections = {**SECTIONS, "Streams and vertices by themselves": streams, "Errors": errors}
    lines = [
        "# API reference",
        "",
        "All public names: `import streamscope as ss`. Signatures and texts come from the code.",
    ]
    for title, names in sections.items():
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", *entry(name, public[name])]
    lines += ["", "## Tests", "", "`from streamscope.testing import TestStream`"]
    for name in streamscope.testing.__all__:
        lines += ["", *entry(name, getattr(streamscope.testing, name))]
    return "\n".join(lines) + "\n"


def is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException | Warning)


def entry(name: str, value: Any) -> Iterator[str]:
    """One public name: a module, a class with its members, a function, or a constant."""
    yield f"### {name}"
    yield ""
    if isinstance(value, types.ModuleType):
        yield from text_of(value)
        for member, found in public_functions(value):
            yield from described(f"{name}.{member}", found)
    elif isinstance(value, type):
        if not is_error(value):
            yield from code(signature(name, value))
        yield from text_of(value)
        if not is_error(value):
            yield from fields(value)
            for member, found in members(value):
                yield from described(f"{name}.{member}", found)
    elif callable(value):
        yield from code(signature(name, value))
        yield from text_of(value)
        yield from options(value)
    else:
        yield from code(f"{name} = {value!r}")


def described(name: str, value: Any) -> Iterator[str]:
    """A function or property of a class or a module."""
    yield ""
    yield f"#### {name}"
    yield ""
    if isinstance(value, property):
        yield from code(name)
    else:
        yield from code(signature(name, value))
    yield from text_of(value)


def public_functions(module: types.ModuleType) -> list[tuple[str, Any]]:
    """The functions that a module itself defines, in their order."""
    return [
        (name, value)
        for name, value in vars(module).items()
        if name[0] != "_" and inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def fields(kind: type) -> Iterator[str]:
    """The fields of a class that a comment with a colon documents, as a list."""
    comment: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        if found := re.fullmatch(r" {4}#: (.*)", line):
            comment.append(found[1])
        elif comment and (named := re.match(r" {4}([a-z]\w*): ", line)):
            yield f"- `{named[1]}`: {' '.join(comment).replace('``', '`')}"
            comment = []
        else:
            comment = []
    yield ""


def options(function: Any) -> Iterator[str]:
    """What the keywords that a function unpacks may be."""
    for annotation in getattr(function, "__annotations__", {}).values():
        if found := re.fullmatch(r"Unpack\[(\w+)\]", str(annotation)):
            yield from ("", "`options` are:", "")
            yield from fields(function.__globals__[found[1]])


def members(kind: type) -> list[tuple[str, Any]]:
    """The public functions and properties of a class, then those of our classes that it extends."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__.split(".")[0] not in PACKAGES:
            continue
        for name, value in vars(base).items():
            held = getattr(value, "__func__", value)
            if name[0] != "_" and (inspect.isfunction(held) or isinstance(held, property)):
                found.setdefault(name, held)
    return [(name, value) for name, value in found.items() if not is_refused(value)]


def is_refused(value: Any) -> bool:
    """Whether a method is there only to say why there is no such method."""
    return getattr(value, "__annotations__", {}).get("return") == "NoReturn"


class Annotation:
    """An annotation that is shown without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def bare(annotation: Any) -> Any:
    return Annotation(annotation) if isinstance(annotation, str) else annotation


def signature(name: str, value: Any) -> str:
    """The call of a function or class; one parameter a line where it is long."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return name
    shown = [
        parameter.replace(annotation=bare(parameter.annotation))
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    if isinstance(value, type):
        found = found.replace(return_annotation=inspect.Signature.empty)
    found = found.replace(parameters=shown, return_annotation=bare(found.return_annotation))
    line = f"{name}{found}"
    if len(line) <= WIDTH:
        return line
    pieces = [str(parameter) for parameter in shown]
    is_keyword_only = [parameter.kind is parameter.KEYWORD_ONLY for parameter in shown]
    is_open = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in shown)
    if any(is_keyword_only) and not is_open:
        pieces.insert(is_keyword_only.index(True), "*")
    _, arrow, returned = line.rpartition(" -> ")
    end = f"){arrow}{returned}" if found.return_annotation is not found.empty else ")"
    return "\n".join([f"{name}(", *(f"    {piece}," for piece in pieces), end])


def code(text: str) -> list[str]:
    return ["```python", text, "```", ""]


def text_of(value: Any) -> Iterator[str]:
    """A docstring as Markdown: roles become code, a section of Google's becomes a list."""
    text = inspect.getdoc(value) or ""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    section = False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Returns|Yields|Attributes):", line):
            section = True
            yield from (f"**{line}**", "")
        elif section and (named := re.fullmatch(r" {4}(\S.*?): (.*)", line)):
            yield f"- `{named[1]}`: {named[2]}"
        elif section and line.startswith("      "):
            yield f"  {line.strip()}"
        else:
            section = section and line.startswith(" ")
            yield line
