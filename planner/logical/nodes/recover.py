"""How a part of a plan is to be recovered: what users choose, and its logical node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from planner.errors import InvalidPlanError
from planner.logical.nodes.routing import SameEvents

#: What users may ask for; code that is not deterministic gets "strong" without being asked.
Choice = Literal["checkpoint", "replay", "replication", "strong"]
_CHOICES: tuple[Choice, ...] = get_args(Choice)
REPLICAS_MAX = 8


@dataclass(frozen=True, slots=True)
class RecoveryChoice:
    """A strategy; ``replicas`` are instances at work at any time, 1 but for replication."""

    strategy: Choice
    replicas: int = 1

    def __str__(self) -> str:
        return f"{self.strategy} x {self.replicas}" if self.replicas > 1 else self.strategy


@dataclass(frozen=True, slots=True)
class Recover(SameEvents):
    """Passes the stream on and says how to recover the stage that computes it."""

    choice: RecoveryChoice
    label: str = ""

    def describe(self) -> str:
        return f"recover by {self.choice}"


def recovery_choice(strategy: str, replicas: int | None) -> RecoveryChoice:
    """The choice of those names; ``replicas`` None: two for replication.

    Raises:
        InvalidPlanError: there is no such strategy, or it takes no such number.
    """
    found = next((choice for choice in _CHOICES if choice == strategy), None)
    if found is None:
        raise InvalidPlanError(
            f'recover_with({strategy!r}): it is "checkpoint", "replay", "replication" or "strong"'
        )
    if found != "replication":
        if replicas is not None:
            raise InvalidPlanError(
                f"recover_with({strategy!r}, replicas={replicas!r}): "
                'only "replication" has replicas'
            )
        return RecoveryChoice(found)
    count = 2 if replicas is None else replicas
    if not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= REPLICAS_MAX:
        raise InvalidPlanError(
            f"recover_with({strategy!r}, replicas={replicas!r}): "
            f"it is a number between 2 and {REPLICAS_MAX}"
        )
    return RecoveryChoice(found, count)
