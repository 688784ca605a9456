"""A run of jobs: a process that starts or resumes them, and prints their statuses as lines.

``python -m tests.kills.life SPECS``, a list of :class:`tests.kills.queries.JobSpec` as JSON. The
line "finish" on its standard input ends the sources where their topics end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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


def main(specs: list[JobSpec]) -> None:
    """Run the jobs to their ends, in one Spark."""
    finish = threading.Event()
    threading.Thread(target=obey, args=[finish], daemon=True).start()
    with ThreadPoolExecutor(len(specs)) as pool:
        runs = [pool.submit(run, spec, finish) for spec in specs]
    for one in runs:
        one.result()


def run(spec: JobSpec, finish: threading.Event) -> None:
    """Run or resume a job to its end."""
    given: dict[str, Any] = {"config": CONFIG, "on_status": partial(show, spec.name)}
    if Path(spec.root, "job.json").exists():
        job = jobmanager.resume(spec.root, **given)
    else:
        given |= {"root": spec.root, "master": spec.master, **spec.options()}
        job = jobmanager.run(spec.live(), **given)
    threading.Thread(target=end, args=[job, finish], daemon=True).start()
    job.wait()


def end(job: jobmanager.Job, finish: threading.Event) -> None:
    """End the job once that is requested."""
    finish.wait()
    job.stop(finish=True)


def obey(finish: threading.Event) -> None:
    """Act on each line of standard input."""
    for line in sys.stdin:
        if line.strip() == FINISH:
            finish.set()


def show(name: str, status: dict[str, Any]) -> None:
    """Print a line per status of the job, unbuffered."""
    shown = {k: status[k] for k in ("state", "error", "events_in", "late_events", "restarts")}
    shown |= {"job": name, "pid": os.getpid()}
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
    sys.stdout.write(json.dumps(shown) + "\n")  # in one call: threads of several jobs print
    sys.stdout.flush()


if __name__ == "__main__":
    main([JobSpec(**spec) for spec in json.loads(sys.argv[1])])
