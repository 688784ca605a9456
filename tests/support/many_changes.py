"""Runs a random sequence of job changes for each of many seeds, in processes. Prints the counts.

``python -m tests.support.many_changes FIRST COUNT [AT_ONCE]``; a seed that fails keeps its folder.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jobmanager.driver import engine
from rvertex.host.executor import LocalExecutor
from tests.rooms import ROOT
from tests.support.changed_jobs import PAIRS
from tests.support.random_changes import RandomChanges
from tests.support.trouble import BrittleWiring

SEED_S_MAX = 300.0


def run_one(seed: int) -> None:
    """Run the sequence of changes of one seed, and print its outcome as JSON."""
    engine.LocalExecutor = lambda vertices, hosts: LocalExecutor(  # type: ignore[attr-defined]
        vertices, hosts=hosts, wire=BrittleWiring
    )
    name = list(PAIRS)[seed % len(PAIRS)]
    folder = Path(tempfile.mkdtemp(prefix=f"changes-{seed}-"))
    begun_s, error = time.monotonic(), ""
    changes = RandomChanges(folder, *PAIRS[name], random.Random(seed))
    try:
        changes.run()
    except BaseException:
        error = traceback.format_exc()
    used = resource.getrusage(resource.RUSAGE_SELF)
    row = {
        "seed": seed,
        "query": name,
        "s": round(time.monotonic() - begun_s, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "done": changes.done,
        "not_done": [step[:200] for step in changes.steps if step.startswith("not ")],
    }
    if error:
        row |= {"error": error, "steps": changes.steps, "folder": str(folder)}
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(row), flush=True)


def run_in_process(seed: int) -> dict[str, Any]:
    """Run the sequence of changes of one seed in its own process. Return its outcome."""
    command = [sys.executable, "-m", "tests.support.many_changes", str(seed)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=SEED_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return {"seed": seed, "done": {}, "error": f"not done after {SEED_S_MAX:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"seed": seed, "done": {}, "error": done.stderr[-2000:]}
    row: dict[str, Any] = json.loads(lines[-1])
    return row


def main(first: int, count: int, at_once: int) -> None:
    """Run the sequences and print the counts."""
    total, failed = Counter[str](), []
    with ThreadPoolExecutor(at_once) as pool:
        for row in pool.map(run_in_process, range(first, first + count)):
            total += Counter(row["done"])
            print(json.dumps(row), flush=True)
            if "error" in row:
                failed.append(row["seed"])
    print(f"{count} sequences, {dict(total)}; failed: {failed}")


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    if len(numbers) == 1:
        run_one(numbers[0])
    else:
        main(numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 3)
