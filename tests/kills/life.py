"""A driver: a process that runs jobs side by side in one Spark, and prints statuses as lines.

``python -m tests.kills.life``. Each line of its standard input is a JSON object: ``{"run": SPEC}``,
a :class:`tests.kills.queries.JobSpec`, starts or resumes a job; ``{"finish": NAME}`` ends its
sources where their topics end. It ends after its jobs once its standard input is closed.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
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
RUN, FINISH = "run", "finish"


def main() -> None:
    """Obey each line of standard input. Then wait for the jobs."""
    jobs: dict[str, threading.Thread] = {}
    finish: dict[str, threading.Event] = {}
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        if RUN in order:
            spec = JobSpec(**order[RUN])
            finish[spec.name] = threading.Event()
            jobs[spec.name] = threading.Thread(target=run, args=[spec, finish[spec.name]])
            jobs[spec.name].start()
        else:
            finish[order[FINISH]].set()
    for job in jobs.values():
        job.join()


def run(spec: JobSpec, finish: threading.Event) -> None:
    """Run or resume a job to its end."""
    given: dict[str, Any] = {"config": CONFIG, "on_status": partial(show, spec.name)}
    try:
        if Path(spec.root, "job.json").exists():
            job = jobmanager.resume(spec.root, **given)
        else:
            given |= {"root": spec.root, "master": spec.master, **spec.options()}
            job = jobmanager.run(spec.live(), **given)
        threading.Thread(target=end, args=[job, finish], daemon=True).start()
        show(spec.name, job.wait())
    except Exception as error:
        traceback.print_exc()
        show(spec.name, {"state": "failed", "error": repr(error)})


def end(job: jobmanager.Job, finish: threading.Event) -> None:
    """End the job once that is requested."""
    finish.wait()
    job.stop(finish=True)


def show(name: str, status: dict[str, Any]) -> None:
    """Print a line per status of the job, unbuffered."""
    shown: dict[str, Any] = {"job": name, "state": status["state"], "error": status.get("error")}
    shown |= {k: status.get(k, 0) for k in ("events_in", "late_events", "restarts")}
    shown["hosts"] = [
        {k: host[k] for k in ("host", "state", "pid")} for host in status.get("hosts", ())
    ]
    shown["vertices"] = [
        {
            "vertex": row["vertex"],
            "state": row["state"],
            "waiting": row["waiting"],
            "stage": row["stage"],
            "is_source": bool(row["logs"]),
            "instances": [{k: i[k] for k in ("state", "host", "pid")} for i in row["instances"]],
        }
        for row in status.get("vertices", ())
    ]
    shown["deliveries"] = [
        {k: row[k] for k in ("delivery", "partition", "state", "rows", "lag_items")}
        for row in status.get("deliveries", ())
    ]
    sys.stdout.write(json.dumps(shown) + "\n")  # in one call: threads of several jobs print
    sys.stdout.flush()


if __name__ == "__main__":
    main()
