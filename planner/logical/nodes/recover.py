"""Recovery of a part of a plan: the user's choice, and its logical node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from planner.errors import InvalidPlanError
from planner.logical.nodes.routing import SameEvents

#: Strategies that users may choose; code that is not deterministic gets "strong" by default.
Choice = Literal["checkpoint", "replay", "replication", "strong"]
_CHOICES: tuple[Choice, ...] = get_args(Choice)
REPLICAS_MAX = 8


@dataclass(frozen=True, slots=True)
class RecoveryChoice:
    """A strategy; ``replicas``: instances that run at the same time, 1 except for replication."""

    strategy: Choice
    replicas: int = 1

    def __str__(self) -> str:
        return f"{self.strategy} x {self.replicas}" if self.replicas > 1 else self.strategy


@dataclass(frozen=True, slots=True)
class Recover(SameEvents):
    """Passes the stream on, and sets how the stage that computes it is recovered."""

    choice: RecoveryChoice
    label: str = ""

    def describe(self) -> str:
        return f"recover by {self.choice}"


def recovery_choice(strategy: str, replicas: int | None) -> RecoveryChoice:
    """Return the checked choice; ``replicas`` None: two for replication.

    Raises:
        InvalidPlanError: there is no such strategy, or it does not take this number.
    """
    choice_of = next((choice for choice in _CHOICES if choice == strategy), None)
    if choice_of is None:
        raise InvalidPlanError(
            f'recover_with({strategy!r}): must be "checkpoint", "replay", "replication" or "strong"'
        )
    if choice_of != "replication":
        if replicas is not None:
            raise InvalidPlanError(
                f"recover_with({strategy!r}, replicas={replicas!r}): "
                'only "replication" has replicas'
            )
        return RecoveryChoice(choice_of)
    count = 2 if replicas is None else replicas
    if not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= REPLICAS_MAX:
        raise InvalidPlanError(
            f"recover_with({strategy!r}, replicas={replicas!r}): "
            f"must be a number between 2 and {REPLICAS_MAX}"
        )
    return RecoveryChoice(choice_of, count)
