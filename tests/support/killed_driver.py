"""Runs a job manager in a process that tests kill. It prints its statuses as lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jobmanager
from jobmanager import JobConfig
from tests.support.jobs import WAIT_S, two_exchanges, with_limits
from tests.support.trouble import Gate

if TYPE_CHECKING:
    from planner import Query

CONFIG = with_limits(
    JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=100, report_interval_s=0.02
)


def show(status: dict[str, Any]) -> None:
    """Print a line per status, unbuffered."""
    print(json.dumps({"state": status["state"], "events_in": status["events_in"]}), flush=True)


def run_or_resume(query: Query, root: str, paced: float) -> None:
    """Run the job, or resume it if it has begun, to its end."""
    if Path(root, "job.json").exists():
        job = jobmanager.resume(root, config=CONFIG, on_status=show)
    else:
        job = jobmanager.run(
            query,
            root=root,
            executor="local",
            hosts=2,
            paced=paced,
            config=CONFIG,
            on_status=show,
        )
    job.wait(WAIT_S)


def main(events: str, root: str, paced: str, events_in: str) -> None:
    """Run or resume the job at ``root``; it waits after slightly more than ``events_in`` rows."""
    gate = Gate()
    gate.close_at(int(events_in))
    gate.stand()
    run_or_resume(two_exchanges(Path(events)), root, float(paced))


if __name__ == "__main__":
    main(*sys.argv[1:])
