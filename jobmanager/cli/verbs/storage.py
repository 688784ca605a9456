"""The verbs about the files of a job: ``gc`` and ``verify``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.run_options import with_run_options
from jobmanager.config import JobConfig
from jobmanager.storage.garbage import collect_garbage
from jobmanager.storage.output_check import verify_output
from jobmanager.storage.root import JobRoot
from rstream.clock import SystemClock


@with_run_options(only=("retain",))
def gc(
    root: options.Root,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files that would be deleted.")
    ] = False,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
    **run_options: Any,
) -> None:
    from jobmanager.cli.branching.abandoned import delete_abandoned

    job_root = JobRoot(root, trust=trust)
    garbage = collect_garbage(
        job_root, JobConfig(), {"retain": run_options["retain"]}, is_dry_run=dry_run
    )
    roots = delete_abandoned(job_root, SystemClock().now_us(), is_dry_run=dry_run)
    removed = {"files": list(garbage.files), "bytes": garbage.size_bytes, "dry_run": dry_run}
    removed["canaries"] = roots
    if as_json:
        print(json.dumps(removed))
        return
    for name in garbage.files:
        print(name)
    for canary in roots:
        print(f"{canary} (root of a canary that was killed)")
    what = "would be freed" if dry_run else "freed"
    print(f"{len(garbage.files):,} files, {garbage.size_bytes:,} bytes {what}")


def verify(root: options.Root, trust: options.Trust = False) -> None:
    print(json.dumps(verify_output(JobRoot(root, trust=trust))))
