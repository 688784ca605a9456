"""Gives methods the fields of a record as keywords, so that each option is declared once."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.logical.query import Query
    from rvertex.sinks.spec import SinkSpec

Options = ParamSpec("Options")
Owner = TypeVar("Owner")
Subject = TypeVar("Subject")
Record = TypeVar("Record")
Made = TypeVar("Made")


def keywords_of(
    record: Callable[Options, Record],
) -> Callable[
    [Callable[[Owner, Subject, Record], Made]],
    Callable[Concatenate[Owner, Subject, Options], Made],
]:
    """Replace the last parameter of a method, a record, by the record's fields as keywords."""
    fields = inspect.signature(record).parameters
    needed = [name for name, field in fields.items() if field.default is field.empty]

    def decorate(
        method: Callable[[Owner, Subject, Record], Made],
    ) -> Callable[Concatenate[Owner, Subject, Options], Made]:
        own = inspect.signature(method)
        *first, last = own.parameters.values()

        @functools.wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            for name in needed:
                if name not in options:
                    raise TypeError(f"{method.__name__}() needs {name}=")
            given = {name: options.pop(name) for name in fields if name in options}
            return method(*args, **options, **{last.name: record(**given)})  # type: ignore[call-arg]

        call.__signature__ = own.replace(parameters=[*first, *fields.values()])  # type: ignore[attr-defined]
        return call

    return decorate


def delivers(make: Callable[Options, SinkSpec]) -> Callable[Concatenate[Any, Options], Query]:
    """Return a method of a stream that delivers its rows to the destination made by ``make``."""

    def call(self: Any, /, *args: Options.args, **options: Options.kwargs) -> Query:
        made: Query = self.deliver(make(*args, **options))
        return made

    functools.update_wrapper(call, make)

    own = inspect.signature(make)
    stream = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    call.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[stream, *own.parameters.values()], return_annotation="Query"
    )
    call.__name__ = f"to_{make.__name__}"
    return call
