"""A job manager that delivers into a topic, in a process of its own, for tests that kill it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jobmanager
from planner import sinks
from tests.support.jobs import WAIT_S, two_exchanges
from tests.support.killed_driver import CONFIG, show

if TYPE_CHECKING:
    from planner import Query


def delivered(events: Path, topic: str, servers: str) -> Query:
    """The query of the killed driver, delivered with its times."""
    return replace(two_exchanges(events), deliveries=(sinks.kafka(topic, servers=servers),))


def main(events: str, root: str, paced: str, topic: str, servers: str) -> None:
    """Run, or go on with, the job at ``root``."""
    if Path(root, "job.json").exists():
        job = jobmanager.resume(root, config=CONFIG, on_status=show)
    else:
        job = jobmanager.run(
            delivered(Path(events), topic, servers),
            root=root,
            executor="local",
            hosts=2,
            paced=float(paced),
            config=CONFIG,
            on_status=show,
        )
    job.wait(WAIT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
