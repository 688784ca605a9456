"""Run options as parameters of verbs. :mod:`jobmanager.options` declares them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

from jobmanager.options import OPTIONS

Verb = Callable[..., None]


def with_run_options(
    *, only: tuple[str, ...] = tuple(OPTIONS), without: tuple[str, ...] = ()
) -> Callable[[Verb], Verb]:
    """Replace the parameter ``**run_options`` of a verb by the run options, before ``as_json``."""

    def decorate(verb: Verb) -> Verb:
        hints = typing.get_type_hints(verb, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(verb).parameters.values()
            if parameter.kind != parameter.VAR_KEYWORD
        ]
        at = next(i for i, parameter in enumerate(own) if parameter.name == "as_json")
        own[at:at] = [_parameter(name) for name in only if name not in without]
        verb.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
        verb.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        return verb

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    option = OPTIONS[name]
    low, high = option.bounds or (None, None)
    shown = typer.Option(*option.flags, help=option.help, metavar=option.metavar, min=low, max=high)
    kind: Any = option.kind
    hint = Annotated[kind | None, shown]
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=hint
    )
