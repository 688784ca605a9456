"""Publishes a complete result into a local folder atomically: as a new folder or as a replacement.

The files are written to a hidden folder beside the target, whose name contains the job's id, and
synced. Then one system call exchanges the two folders. So a reader who opens the target gets all
old rows or all new rows. On a system without such a call the old folder is moved away first, and
for a moment there is no target. The file ``_PUBLISHED`` has the ids of this job and of the jobs
published before. So after a failure a job knows whether it has published, even if a later job has
replaced its result. Object stores cannot exchange folders; for them see
:mod:`jobmanager.delivery.publishing_stores`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.delivery.answer import Answer
from jobmanager.delivery.publishing_stores import (
    MARK,
    check_store,
    is_marked,
    mark,
    publish_to_store,
)
from jobmanager.errors import CannotPublishError
from rstream.errors import StoreError
from rstream.store.blobs import open_store
from rstream.store.local_files import make_folder, sync_file, sync_folder
from rvertex.sources.formats.rows.folders import recorded
from rvertex.sources.formats.rstream import CLAIM
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.logical.query import Publishing
    from planner.physical.plan import PhysicalPlan

_PARTITIONS_MAX = 10_000
_ROWS_PER_FILE = 1 << 22
_AT_FDCWD, _EXCHANGE = -100, 2
_FORMER = ".former"


def check_publishing(plan: PhysicalPlan, job_id: str) -> None:
    """Check, when the job starts, that it may write the folder when it ends.

    Raises:
        CannotPublishError: the folder has other files, or the mode does not allow replacing it.
    """
    publishing = plan.publishing
    if publishing is None:
        return
    path = publishing.path
    if local_path(path) is None:
        check_store(open_store(path), publishing.mode, job_id)
        return
    if _is_published(path, job_id):
        return
    if os.path.isdir(path) and os.listdir(path):
        if publishing.mode == "error":
            raise CannotPublishError(path, 'it already exists; mode="overwrite" replaces it')
        _check_table(path)
    elif os.path.exists(path) and not os.path.isdir(path):
        raise CannotPublishError(path, "it is a file")


def publish(plan: PhysicalPlan, job_id: str, report: Callable[[], None]) -> None:
    """Publish the complete result of a plan, unless it was published before.

    ``report`` is called repeatedly while files are written, to show that the job is alive.

    Raises:
        CannotPublishError: the folder has changed since the check, or the disk fails.
    """
    publishing = plan.publishing
    if publishing is None:
        return
    check_publishing(plan, job_id)
    path = publishing.path
    if local_path(path) is None:
        _publish_to_store(plan, publishing, job_id, report)
        return
    draft = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{job_id}"
    former = f"{draft}{_FORMER}"
    try:
        if not _is_published(path, job_id):
            shutil.rmtree(draft, ignore_errors=True)
            make_folder(os.path.dirname(path), sync=True)
            _write(plan, publishing, draft, report)
            before = _mark_of(path)
            _put_mark(draft, mark(job_id, before))
            if os.path.isdir(path):
                _exchange(draft, path, former)
                taken = _mark_of(draft) or _mark_of(former)
                if taken != before:  # another job has published meanwhile
                    _put_mark(path, mark(job_id, taken))
            else:
                os.replace(draft, path)
            sync_folder(os.path.dirname(path))
    except (OSError, pa.ArrowException) as error:
        raise CannotPublishError(path, str(error)) from error
    for folder in (draft, former):  # a process that died may have left them
        shutil.rmtree(folder, ignore_errors=True)


def _publish_to_store(
    plan: PhysicalPlan, publishing: Publishing, job_id: str, report: Callable[[], None]
) -> None:
    with tempfile.TemporaryDirectory(prefix="streamscope-") as folder:

        def write() -> str:
            draft = f"{folder}/table"
            _write(plan, publishing, draft, report)
            return draft

        try:
            publish_to_store(open_store(publishing.path), job_id, write)
        except (StoreError, OSError, pa.ArrowException) as error:
            raise CannotPublishError(publishing.path, str(error)) from error


def _write(
    plan: PhysicalPlan,
    publishing: Publishing,
    draft: str,
    report: Callable[[], None],
) -> None:
    import pyarrow.dataset as ds

    os.makedirs(draft)
    answer = Answer(plan)
    named = pa.schema([answer.schema.field(name) for name in publishing.partition_by])
    schema = answer.schema.with_metadata(recorded(named)) if named.names else answer.schema

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in answer.batches():
            report()
            yield batch

    ds.write_dataset(
        batches(),
        draft,
        schema=schema,
        format="parquet",
        partitioning=list(publishing.partition_by) or None,
        partitioning_flavor="hive" if publishing.partition_by else None,
        basename_template="part-{i}.parquet",
        max_partitions=_PARTITIONS_MAX,
        max_rows_per_file=_ROWS_PER_FILE,
        use_threads=False,  # keeps the row order of a partition
        existing_data_behavior="overwrite_or_ignore",
    )
    for folder, _, names in os.walk(draft):
        for name in names:
            sync_file(f"{folder}/{name}")
        sync_folder(folder)


def _exchange(draft: str, path: str, former: str) -> None:
    """Exchange two folders. ``former``: where the old folder is moved if the system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    change = getattr(libc, "renameat2", None)
    given = (_AT_FDCWD, os.fsencode(draft), _AT_FDCWD, os.fsencode(path), _EXCHANGE)
    if change is not None and change(*given) == 0:
        return
    shutil.rmtree(former, ignore_errors=True)
    os.rename(path, former)
    os.rename(draft, path)


def _put_mark(folder: str, data: bytes) -> None:
    with open(f"{folder}/{MARK}", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def _mark_of(path: str) -> bytes | None:
    try:
        with open(f"{path}/{MARK}", "rb") as file:
            return file.read()
    except OSError:
        return None


def _is_published(path: str, job_id: str) -> bool:
    return is_marked(_mark_of(path), job_id)


def _check_table(path: str) -> None:
    """Check that the folder contains Parquet files only, because publishing deletes its files."""
    if os.path.exists(f"{path}/{CLAIM}"):
        raise CannotPublishError(path, "it is the output of a job, which would be damaged")
    for folder, _, names in os.walk(path):
        for name in names:
            if not name.startswith(("_", ".")) and not name.endswith(".parquet"):
                relative = os.path.relpath(f"{folder}/{name}", path)
                raise CannotPublishError(
                    path, f"it contains {relative}, which is not a Parquet file"
                )
