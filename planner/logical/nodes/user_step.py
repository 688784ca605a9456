"""The logical node of a step that runs user code; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planner.logical.nodes.node import InputKeys, Step, same_partitioning
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.call_once import CallOnce
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.lookup import Lookup
from rvertex.operators.user.transform import UserOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.logical.nodes.partitioning import Partitioning
    from rvertex.user_code.code import UserCode

_KINDS: dict[type, str] = {
    Apply: "apply",
    CallOnce: "call_once",
    KeyedProcessing: "process",
    Lookup: "lookup",
    UserOperator: "transform",
}
UserSpec = Apply | CallOnce | KeyedProcessing | Lookup | UserOperator


@dataclass(frozen=True, slots=True)
class UserStep(Step):
    """Runs the operator ``spec``. ``keys`` None: row by row, in any partition."""

    spec: UserSpec
    keys: tuple[str, ...] | None
    label: str = ""
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.spec.output_schema([self.input.schema]))

    @property
    def code(self) -> UserCode:
        """The user code."""
        return code_of(self.spec)

    @property
    def codes(self) -> tuple[UserCode, ...]:
        return (self.code,)

    def operator(self) -> UserSpec:
        return self.spec

    @property
    def stage_kind(self) -> str:
        return _KINDS[type(self.spec)]

    def describe(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        if not self.code.is_deterministic:
            by += ", not deterministic"
        if isinstance(self.spec, CallOnce | Lookup):
            by = self.spec.how
        policy = "" if self.spec.on_error == "fail" else f" on_error={self.spec.on_error}"
        return f"{self.stage_kind} {self.code.name}{by}{policy}"

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.keys,)

    @property
    def partitioning(self) -> Partitioning:
        """The keys of a process, all columns of a lookup; unknown for other code."""
        if isinstance(self.spec, CallOnce | Lookup):
            return same_partitioning(self, set(self.input.schema.names))
        keeps = self.keys if isinstance(self.spec, KeyedProcessing) else None
        return same_partitioning(self, set(keeps or ()))

    @property
    def keeps_lifetimes(self) -> bool:
        return isinstance(self.spec, Apply | CallOnce | Lookup)


def code_of(spec: UserSpec) -> UserCode:
    """Return the user code in an operator."""
    match spec:
        case Apply(function=code) | CallOnce(function=code) | Lookup(function=code):
            return code
        case KeyedProcessing(process=code) | UserOperator(code=code):
            return code


def lettered(step: UserStep, taken: set[str]) -> UserSpec:
    """Give an operator an unused folder for its dead letters, and add the folder to ``taken``."""
    if step.spec.on_error != "dead_letter":
        return step.spec
    base = re.sub(r"[^\w.-]+", "", step.label or step.code.name).strip(".") or "code"
    name, number = base, 1
    while name in taken:  # terminates: ``taken`` is finite
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return replace(step.spec, letters=name)
