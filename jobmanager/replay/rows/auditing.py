"""Audits: recompute random past ranges of a job, and compare digests with the recorded ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.replaying import replay_range
from jobmanager.storage.root import JobRoot

if TYPE_CHECKING:
    from jobmanager.replay.replaying import Replay


@dataclass(slots=True)
class Audit:
    """The result of an audit."""

    ranges: int = 0
    items: int = 0
    #: The number of items and digests compared.
    compared: int = 0
    #: By vertex: the reason why it cannot be replayed.
    skipped: dict[str, str] = field(default_factory=dict)
    #: The first range with a difference. Its ``difference`` names the first item that differs.
    different: Replay | None = None

    @property
    def is_equal(self) -> bool:
        """Whether no range differs."""
        return self.different is None

    def __str__(self) -> str:
        text = (
            f"{self.ranges:,} ranges with {self.items:,} items replayed, {self.compared:,} compared"
        )
        lines = [f"{text}: equal" if self.is_equal else f"{text}\n{self.different}"]
        lines += [f"skipped {vertex}: {reason}" for vertex, reason in self.skipped.items()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        different = None if self.different is None else self.different.to_json()
        counts = {"ranges": self.ranges, "items": self.items, "compared": self.compared}
        return {"equal": self.is_equal, **counts, "skipped": self.skipped, "different": different}


def audit(root: str, limit_s: float, *, seed: int | None = None, trust: bool = False) -> Audit:
    """Replay random ranges between retained checkpoints for ``limit_s``, at least one.

    It ends at the first difference. The root is not changed. A vertex that cannot be replayed is
    skipped and reported with the reason.

    Raises:
        CannotReplayError: no vertex can run again.
    """
    recorded = Recorded(JobRoot(root, trust=trust))
    random, result, ends_s = Random(seed), Audit(), monotonic() + limit_s
    left = list(recorded.plan.vertices)
    while left and result.is_equal and (not result.ranges or monotonic() < ends_s):
        spec = random.choice(left)
        try:
            ran = replay_range(
                recorded, spec, random.randint(0, len(recorded.checkpoints(spec.id)))
            )
        except CannotReplayError as error:
            result.skipped[spec.id] = str(error)
            left.remove(spec)
            continue
        result.ranges += 1
        result.items += ran.items
        result.compared += ran.compared_items + ran.compared_digests
        result.different = None if ran.is_equal else ran
    if not result.ranges:
        raise CannotReplayError(root, "no vertex can run again", "; ".join(result.skipped.values()))
    return result
