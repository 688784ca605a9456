"""Every limit of a joiner, with its unit and default."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rvertex.registry.joiner.errors import JoinerLimitError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class JoinerLimits:
    """The limits of one joiner."""

    #: Most foreign rows that wait for their primary row. At the limit, no foreign row is read.
    waiting_rows_max: int = 500_000
    #: Seconds before the second lookup of a foreign row. Each further pause is twice as long.
    retry_first_s: float = 1.0
    #: Longest pause between two lookups of a foreign row, s.
    retry_max_s: float = 300.0
    #: How long a row waits for the site to whose share it belongs, s.
    defer_s: float = 2.0
    #: Most foreign rows of a step, and thus of one claim.
    step_rows_max: int = 8192
    #: Most foreign rows that are dispatched per second, retries included; None: no limit.
    rows_per_s_max: float | None = None
    #: Bytes of the newest primary rows in memory; older ones are on scratch.
    cache_bytes: int = 256 * MIB
    #: Pause when there is no work, s.
    poll_s: float = 0.05
    #: Pause after a call that the registry or a log did not answer, s.
    away_s: float = 0.5
    #: The joiner ends with an error if the registry does not answer for this time, s.
    away_max_s: float = math.inf
    #: A record of all waiting rows is written after this many steps.
    steps_per_record: int = 256

    def __post_init__(self) -> None:
        rules = {
            "0 < step_rows_max <= waiting_rows_max": (
                0 < self.step_rows_max <= self.waiting_rows_max
            ),
            "0 < retry_first_s <= retry_max_s": 0 < self.retry_first_s <= self.retry_max_s,
            "0 < steps_per_record": self.steps_per_record > 0,
            "0 < rows_per_s_max": self.rows_per_s_max is None or self.rows_per_s_max > 0,
            "0 <= away_max_s": self.away_max_s >= 0,
        }
        for rule, holds in rules.items():
            if not holds:
                raise JoinerLimitError(rule)
