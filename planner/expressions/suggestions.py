"""Suggests the nearest name for unknown methods, functions and options."""

from __future__ import annotations

import functools
import inspect
from difflib import get_close_matches
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

#: Our name -> its names in other libraries.
_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "mean": ("average", "avg"),
    "stddev": ("std", "stdev", "stddev_samp"),
    "variance": ("var", "var_samp"),
    "count_distinct": ("nunique", "n_unique", "approx_count_distinct", "countDistinct"),
    "array_agg": ("collect_list", "list_agg", "implode"),
    "string_agg": ("concat_ws", "listagg", "group_concat"),
    "quantile": ("percentile", "percentile_cont", "median"),
    "filter": ("where", "query"),
    "select": ("project", "map"),
    "with_columns": ("withColumn", "withColumns", "assign", "with_column"),
    "group_by": ("groupby", "groupBy", "key_by", "keyBy"),
    "rename": ("withColumnRenamed",),
    "deduplicate": ("distinct", "drop_duplicates", "dropDuplicates", "unique"),
    "limit": ("head", "take"),
    "from_json": ("from_jsonl", "from_ndjson", "read_json", "read_ndjson", "scan_ndjson"),
    "from_csv": ("read_csv", "scan_csv"),
    "from_parquet": ("read_parquet", "scan_parquet"),
    "delimiter": ("sep", "separator", "delim"),
    "null_values": ("na_values", "nullValue", "null_value"),
    "schema": ("dtype", "dtypes", "columns", "types"),
    "servers": ("bootstrap_servers", "brokers"),
    "delay": ("watermark", "lateness", "allowed_lateness"),
    "follow": ("streaming", "tail"),
    "on_bad_row": ("on_bad_lines", "ignore_errors"),
    "vs": ("time", "timestamp", "event_time"),
}
_ORIGIN = "__checks_options__"


def near(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``, or an empty text if no known name is near."""
    names = sorted(known)
    other = [word for word, elsewhere in _ELSEWHERE.items() if name in elsewhere and word in names]
    names_near = other or get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {names_near[0]!r}?" if names_near else ""


def missing(what: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error that ``what`` has no such name."""
    if name.startswith("_"):
        return AttributeError(f"{what} has no {name!r}")
    names = sorted(n for n in known if not n.startswith("_"))
    hint = near(name, names) or f"; there are: {', '.join(names)}"
    # Python would add its own suggestion from the names of ``obj``, which may contradict ours
    return AttributeError(f"{what} has no {name!r}{hint}", name=name, obj=object())


def suggest_in_class(cls: type) -> None:
    """Let a class and its bases suggest near names of methods and options."""

    def refuse(self: object, name: str) -> NoReturn:
        del self
        raise missing(cls.__name__, name, dir(cls))

    cls.__getattr__ = refuse  # type: ignore[attr-defined]
    for part in cls.__mro__:
        if part.__module__ == "builtins" or part.__module__.startswith(("typing", "abc")):
            continue
        for name, value in list(vars(part).items()):
            if isinstance(value, classmethod):
                made = _checked(value.__func__)
                if made is not value.__func__:
                    setattr(part, name, classmethod(made))
            elif isinstance(value, FunctionType):
                setattr(part, name, _checked(value))


def suggest_in_module(names: MutableMapping[str, Any]) -> None:
    """Make a module's functions suggest names for unknown options; ``names``: its globals."""
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and value.__module__ == names["__name__"]:
            names[name] = _checked(value)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function. If it takes options, return a wrapper that checks their names first."""
    if function.__name__.startswith("_") or hasattr(function, _ORIGIN):
        return function
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function
    known = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    if not known - {"self", "cls"}:
        return function

    @functools.wraps(function)
    def looked(*args: Any, **options: Any) -> Any:
        if not options.keys() <= known:
            wrong = next(name for name in options if name not in known)
            names = sorted(known - {"self", "cls"})
            hint = near(wrong, names) or f"; there are: {', '.join(names)}"
            raise TypeError(f"{function.__name__}() has no option {wrong!r}{hint}")
        return function(*args, **options)

    setattr(looked, _ORIGIN, True)
    return looked
