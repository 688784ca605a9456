"""Options of verbs from ``streamscope.toml`` and the environment.

Precedence, highest first: the command line; the environment (``STREAMSCOPE_RUN_PARALLELISM``); the
verb's table (``[run]`` with ``parallelism = 8``); an option above all tables, for each verb that
has it; the default.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rstream.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The variable that names the file. Without it, FILE in the working directory is read if it exists.
VARIABLE = "STREAMSCOPE_CONFIG"
FILE = "streamscope.toml"


def defaults(commands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameter values per verb. ``commands``: the Click commands.

    A command is looked up, and so imported, only if the file or a variable may name its options.

    Raises:
        UsageError: the file cannot be read, or has a verb or an option that does not exist.
    """
    values_of = {verb: dict(values) for verb, values in _of_file(commands).items()}
    for verb in commands:
        prefix = f"STREAMSCOPE_{verb}_".upper()
        if any(name.startswith(prefix) for name in os.environ):
            for option, parameter in _options(commands[verb]).items():
                variable = f"{prefix}{option[2:].replace('-', '_').upper()}"
                if variable in os.environ:
                    values_of[verb][parameter] = os.environ[variable]
    return values_of


def _of_file(commands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    values_of: dict[str, dict[str, Any]] = {verb: {} for verb in commands}
    path = os.environ.get(VARIABLE) or FILE
    if path == FILE and not Path(FILE).exists():
        return values_of
    try:
        with Path(path).open("rb") as file:
            document = tomllib.load(file)
    except (OSError, ValueError) as error:  # ValueError: not TOML, or not UTF-8
        raise UsageError(f"{path} cannot be read: {error}") from error
    known = {verb: _options(command) for verb, command in commands.items()}
    for key, value in document.items():
        if not isinstance(value, dict):
            verbs = [verb for verb in known if _option(key) in known[verb]]
            if not verbs:
                raise UsageError(f"{path}: no verb has an option {key}")
            for verb in verbs:
                values_of[verb][known[verb][_option(key)]] = value
            continue
        if key not in known:
            raise UsageError(f"{path}: there is no verb {key}; the verbs are {', '.join(known)}")
        for name, set_to in value.items():
            if _option(name) not in known[key]:
                names = ", ".join(sorted(option.removeprefix("--") for option in known[key]))
                raise UsageError(f"{path}: {key} has no option {name}; it has {names}")
            values_of[key][known[key][_option(name)]] = set_to
    return values_of


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _options(command: Any) -> dict[str, str]:
    """Return the options of a verb, as on the command line, and the names of their parameters."""
    return {
        option: parameter.name
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name != "help"
        for option in parameter.opts
    }
