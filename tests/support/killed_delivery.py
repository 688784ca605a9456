"""A job manager with deliveries in a separate process, for tests that kill it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner import sinks
from tests.support.jobs import two_exchanges
from tests.support.killed_driver import run_or_resume

if TYPE_CHECKING:
    from planner import Query


def delivered(events: Path, place: str, where: str) -> Query:
    """The query of the killed driver, delivered with its times."""
    kind, _, name = place.rpartition(":")
    sink = sinks.postgres(where, name) if kind == "table" else sinks.kafka(name, servers=where)
    return replace(two_exchanges(events), deliveries=(sink,))


def main(events: str, root: str, paced: str, place: str, where: str) -> None:
    """Run or resume the job at ``root``; ``place``: a topic, or ``table:NAME``."""
    run_or_resume(delivered(Path(events), place, where), root, float(paced))


if __name__ == "__main__":
    main(*sys.argv[1:])
