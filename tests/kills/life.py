"""A run of a job: a process that starts or resumes it, and prints its statuses as lines.

``python -m tests.kills.life SPEC``, a :class:`tests.kills.queries.JobSpec` as JSON. The line
"finish" on its standard input ends the sources where their topics end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import jobmanager
from jobmanager import JobConfig
from rvertex.host.environment import HostLimits
from tests.kills.queries import JobSpec

HOSTS = 2
#: A host that is frozen for longer is given up. A busy machine may make one wait for seconds.
HOST_SILENCE_S = 5.0
CONFIG = JobConfig(
    tick_s=0.2,
    hosts=HOSTS,
    host_silence_s=HOST_SILENCE_S,
    host_start_wait_s=600.0,
    host=HostLimits(checkpoint_interval_s=0.5, lease_s=1.0),
)
FINISH = "finish"


def main(spec: JobSpec) -> None:
    """Run the job to its end."""
    if Path(spec.root, "job.json").exists():
        job = jobmanager.resume(spec.root, config=CONFIG, on_status=show)
    else:
        options = {"root": spec.root, "config": CONFIG, "on_status": show, **spec.options()}
        job = jobmanager.run(spec.live(), master=spec.master, **options)
    threading.Thread(target=obey, args=[job], daemon=True).start()
    job.wait()


def obey(job: jobmanager.Job) -> None:
    """Act on each line of standard input."""
    for line in sys.stdin:
        if line.strip() == FINISH:
            job.stop(finish=True)


def show(status: dict[str, Any]) -> None:
    """Print a line per status, unbuffered."""
    shown = {k: status[k] for k in ("state", "error", "events_in", "late_events", "restarts")}
    shown["pid"] = os.getpid()
    shown["hosts"] = [{k: host[k] for k in ("host", "state", "pid")} for host in status["hosts"]]
    shown["vertices"] = [
        {
            "vertex": row["vertex"],
            "state": row["state"],
            "waiting": row["waiting"],
            "stage": row["stage"],
            "is_source": bool(row["logs"]),
            "instances": [{k: i[k] for k in ("state", "host", "pid")} for i in row["instances"]],
        }
        for row in status["vertices"]
    ]
    shown["deliveries"] = [
        {k: row[k] for k in ("delivery", "partition", "state", "rows", "lag_items")}
        for row in status.get("deliveries", ())
    ]
    print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main(JobSpec(**json.loads(sys.argv[1])))
