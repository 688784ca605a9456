"""The policy of an autoscaled job: a TOML file, checked, and stored with the job's options."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from planner.cost.parallelism import PARALLELISM_MAX
from planner.durations import positive_duration_us
from rstream.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The value of the option ``autoscale`` that ends a policy.
OFF = "off"
_US_PER_S = 1_000_000
#: Keys of a policy that are durations, and their fields.
_NAMES = {
    "target_lag": "target_lag_s",
    "settle": "settle_s",
    "cooldown": "cooldown_s",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """When and how far stages are rescaled. ``stages``: per stage, its own ``min`` and ``max``."""

    min: int = 1
    max: int = 8
    target_lag_s: float | None = None
    target_busy: float = 0.7
    target_memory: float = 0.85
    settle_s: float = 60.0
    cooldown_s: float = 300.0
    step: int = 2
    dry_run: bool = False
    stages: tuple[tuple[str, tuple[int, int]], ...] = ()

    def limits(self, stage: str) -> tuple[int, int]:
        """Return the minimum and maximum number of vertices of a stage."""
        for name, limits in self.stages:
            if stage == name or stage.startswith(f"{name}-"):
                return limits
        return self.min, self.max


def recorded_policy(given: str | dict[str, Any], name: str) -> str | dict[str, Any]:
    """Return what the root stores: the content of a policy file, or :data:`OFF`.

    Raises:
        UsageError: the file cannot be read, or the policy is not valid.
    """
    if given == OFF or isinstance(given, dict):
        document = given
    else:
        try:
            with open(given, "rb") as file:
                document = tomllib.load(file)
        except (OSError, ValueError) as error:  # ValueError: the file is no TOML, or not in UTF-8
            raise UsageError(f"{name} {given} cannot be read: {error}") from error
        name = given
    stored_policy(document, name)
    return document


def stored_policy(recorded: str | dict[str, Any], name: str = "autoscale") -> Policy | None:
    """Return the stored policy; None: there is none."""
    return None if isinstance(recorded, str) else policy_of(recorded, name)


def policy_of(document: Mapping[str, Any], name: str) -> Policy:
    """Return the policy of a document (TOML); ``name`` names it in errors.

    Raises:
        UsageError: a key does not exist, or its value is out of range.
    """
    known = {f.name for f in fields(Policy)} - set(_NAMES.values()) | set(_NAMES)
    if unknown := sorted(set(document) - known):
        keys = ", ".join(sorted(known))
        raise UsageError(f"{name}: there is no key {unknown[0]!r}; the keys are {keys}")
    values: dict[str, Any] = {key: value for key, value in document.items() if key != "stages"}
    for key, field in _NAMES.items():
        if key in values:
            if not isinstance(values[key], str):
                wrong = f"{name}: {key} = {values[key]} has no unit: write it as text"
                raise UsageError(f'{wrong}, such as {key} = "30s"')
            values[field] = positive_duration_us(values.pop(key), what=f"{name}: {key}") / _US_PER_S
    for key in ("target_busy", "target_memory"):
        share = values.get(key, 0.5)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise UsageError(f"{name}: {key} must be a share above 0 and at most 1, such as 0.7")
    if not isinstance(values.get("dry_run", False), bool):
        raise UsageError(f"{name}: dry_run must be true or false")
    low, high = _limits(values, 1, 8, name)
    step = values.get("step", 1)
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        raise UsageError(f"{name}: step must be a number of vertices, at least 1")
    tables, stages = document.get("stages", {}), []
    if not isinstance(tables, dict):
        raise UsageError(f"{name}: stages are tables: write [stages.s02], and below it max = 4")
    for stage, own in tables.items():
        if not isinstance(own, dict) or set(own) - {"min", "max"}:
            raise UsageError(f"{name}: [stages.{stage}] has only min and max")
        stages.append((stage, _limits(own, low, high, f"{name}: [stages.{stage}]")))
    return Policy(**{**values, "min": low, "max": high, "stages": tuple(stages)})


def _limits(given: Mapping[str, Any], low: int, high: int, name: str) -> tuple[int, int]:
    low, high = given.get("min", low), given.get("max", high)
    for value in (low, high):
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{name}: min and max must be numbers of vertices")
    if not 1 <= low <= high <= PARALLELISM_MAX:
        raise UsageError(f"{name}: min and max must satisfy 1 <= min <= max <= {PARALLELISM_MAX}")
    return low, high
