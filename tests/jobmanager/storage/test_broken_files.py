"""Every file of a root, damaged in every way, and every command on it: one message, no traceback.

A cancelled job and a finished one are made; each case damages a copy. Not covered: damage to two
files at once, and files of another job.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager import JobConfig, logs
from jobmanager.cli.exits import EXIT_FAILED, EXIT_USAGE
from jobmanager.cli.main import app
from jobmanager.errors import JobExistsError
from jobmanager.storage.root import FORMAT, JobRoot
from planner import Stream, agg, hopping
from rstream.clock import SystemClock
from tests.support.budget import DEPTH
from tests.support.jobs import ROWS, WAIT_S, two_exchanges, with_limits, write_events
from tests.support.trouble import Gate, run_and_cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

CONFIG = with_limits(
    JobConfig(tick_s=0.02),
    checkpoint_interval_s=0.05,
    checkpoint_inline_bytes_max=200,
    step_rows_max=200,
)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scribble(path: Path) -> None:
    path.write_bytes(b"\x80\x04garbage \xff{]" * 9)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 1
    path.write_bytes(data)


def edit(path: Path) -> None:
    """Edit the file like a user who mistakes it for a settings file."""
    path.write_text(json.dumps({"format": FORMAT, "state": "x", "manager_epoch": "x", "files": 3}))


HARMS = (empty, cut, scribble, flip, edit, Path.unlink)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two roots, by how their jobs ended."""
    folder = tmp_path_factory.mktemp("jobs")
    query = two_exchanges(write_events(folder / "events.parquet"))
    options: dict[str, Any] = {"parallelism": 1, "hosts": 1, "config": CONFIG}
    roots = {name: folder / name for name in ("finished", "cancelled")}
    with pytest.MonkeyPatch.context() as patch:
        gate = Gate()
        gate.stand(patch)
        streams = roots["cancelled"] / "streams"
        run_and_cancel(
            query,
            gate,
            ROWS // 2,
            lambda _: any(streams.glob("s02-agg*/_low_water_mark")),
            root=str(roots["cancelled"]),
            paced=20.0,
            **options,
        )
    jobmanager.run(query, root=str(roots["finished"]), executor="local", **options).wait(WAIT_S)
    (roots["cancelled"] / "requests").mkdir(exist_ok=True)
    (roots["cancelled"] / "requests" / "cancel").touch()
    return roots


@pytest.fixture(autouse=True)
def _quiet_logs() -> Iterator[None]:
    yield
    logs.configure(verbose=False)


def files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def kind_of(name: str) -> str:
    """Return the kind of a file; all files of a kind are handled alike."""
    head, _, rest = name.partition("/")
    if head in ("notices", "checkpoints", "streams", "output"):
        last = rest.rpartition("/")[2]
        part = "part" if "/parts/" in rest else ""
        return f"{head} {part or Path(last).suffix or last}"
    return head


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def clean(result: Result, *verb: object) -> Result:
    """Check that a command ended properly: done, failed or rejected, with one message."""
    assert result.exit_code in (0, EXIT_FAILED, EXIT_USAGE), (verb, result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    told = [line for line in result.stderr.splitlines() if line.startswith("jobmanager: error")]
    assert len(told) == (result.exit_code != 0), (verb, result.stderr)
    assert "Traceback" not in result.output, (verb, result.output)
    return result


def damaged(job: Path, name: str, harm: Callable[[Path], None]) -> Path:
    """A copy of a root with one damaged file. It is in another folder, as if it had been moved."""
    folder = job.parent / "copies"
    shutil.rmtree(folder, ignore_errors=True)
    root = Path(shutil.copytree(job, folder / "job"))
    shutil.copytree(job, folder / "other", ignore=shutil.ignore_patterns("[!j]*"))
    harm(root / name)
    return root


def check_every_command(root: Path, name: str, digest: str) -> int:
    """Return how ``resume`` ended: with the right result, or with an error that names a file."""
    clean(call("status", root, "--json"), name, "status")
    clean(call("cancel", root), name, "cancel")
    clean(call("gc", root, "--dry-run"), name, "gc --dry-run")
    listed = clean(call("list", root.parent, "--json"), name, "list")
    rows = {row["job"]: row["state"] for row in json.loads(listed.stdout)["jobs"]}
    assert rows.keys() == {"job", "other"} or not (root / "job.json").exists(), rows
    clean(call("gc", root), name, "gc")
    clean(call("status", root, "--json"), name, "status after gc")
    resumed = clean(call("resume", root, "--json"), name, "resume")
    told = json.loads(resumed.stdout.splitlines()[-1])
    if resumed.exit_code == 0:
        assert (told["state"], told["output_digest"]) == ("finished", digest), (name, told)
    else:
        places = (str(root), name, name.rpartition("/")[0] or name)
        is_named = any(place in told["error"] for place in places)
        assert is_named, (name, told["error"])
    return resumed.exit_code


@pytest.fixture(scope="module")
def digest(jobs: dict[str, Path]) -> str:
    found: str = json.loads((jobs["finished"] / "status.json").read_text())["output_digest"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("state", ["finished", "cancelled"])
def test_no_damage_causes_a_traceback_or_another_answer(
    jobs: dict[str, Path], digest: str, state: str, harm: Callable[[Path], None]
) -> None:
    names = {kind_of(name): name for name in files(jobs[state])}
    assert names.keys() >= {"job.json", "plan.pkl", "status.json", "epochs", "notices _follows"}
    for k, name in enumerate(names.values()):
        if DEPTH > 1 or (k + HARMS.index(harm)) % 2 == (state == "finished"):  # in one of the two
            check_every_command(damaged(jobs[state], name, harm), name, digest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "exit_code"),
    [("status.json", 0), ("epochs/0000000001", 0), ("output/_JOB", 0), ("plan.pkl", EXIT_FAILED)],
)
def test_files_that_are_only_displayed_are_rebuilt(
    jobs: dict[str, Path], digest: str, name: str, exit_code: int
) -> None:
    root = damaged(jobs["cancelled"], name, cut)
    assert check_every_command(root, name, digest) == exit_code


def test_a_lost_status_is_derived_from_the_other_files(jobs: dict[str, Path]) -> None:
    for state, root in jobs.items():
        copy = damaged(root, "status.json", scribble)
        told = json.loads(call("status", copy, "--json").stdout)
        assert (told["state"], told["root"]) == (state, str(copy))
        assert listed(copy.parent)[0]["state"] == state


def listed(folder: Path) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(call("list", folder, "--json").stdout)["jobs"]
    return rows


def test_a_broken_job_is_listed_as_such(jobs: dict[str, Path]) -> None:
    root = damaged(jobs["cancelled"], "job.json", flip)
    broken, whole = listed(root.parent)
    assert (broken["job"], broken["state"]) == ("job", "broken")
    assert "job.json is broken: its checksum does not match" in broken["error"]
    assert (whole["job"], whole["state"]) == ("other", "unknown")


@pytest.mark.parametrize("name", ["job.json", "plan.pkl"])
def test_a_broken_job_is_not_overwritten(jobs: dict[str, Path], tmp_path: Path, name: str) -> None:
    """A root with a missing file is not free: a new job would mix its rows with the old one's."""
    root = damaged(jobs["cancelled"], name, Path.unlink)
    before = files(root)
    query = two_exchanges(write_events(tmp_path / "events.parquet"))
    with pytest.raises(JobExistsError):
        jobmanager.run(query, root=str(root), executor="local")
    assert files(root) == before


def test_an_epoch_is_not_reused_if_its_claim_is_lost(jobs: dict[str, Path]) -> None:
    root = damaged(jobs["cancelled"], "epochs/0000000001", Path.unlink)
    (root / "status.json").unlink()
    job = JobRoot(str(root))
    job.take_over(SystemClock().now_us())
    assert job.epoch == 2


@pytest.mark.slow
def test_without_checkpoints_vertices_start_from_their_sources(gate: Gate, tmp_path: Path) -> None:
    """The channels between them are volatile, so their writers can write everything again."""
    events = Stream.from_parquet(str(write_events(tmp_path / "events.parquet")), vs="t", delay="1s")
    windows = events.group_by("key").window(hopping("2s", "1s"))
    query = windows.agg(n=agg.count(), total=agg.sum("x")).to_parquet()
    calm = jobmanager.run(query, root=str(tmp_path / "calm"), executor="local").wait(WAIT_S)
    root = tmp_path / "job"
    run_and_cancel(query, gate, ROWS // 2, root=str(root), paced=20.0, config=CONFIG)
    checkpoints = list((root / "checkpoints").rglob("*.ckpt"))
    for path in checkpoints:
        cut(path)
    result = clean(call("resume", root, "--json"), "resume")
    told = json.loads(result.stdout.splitlines()[-1])
    assert told["state"] == "finished", told
    assert told["output_digest"] == calm["output_digest"]
    assert told["events_in"] == calm["events_in"]
    named = [p for p in checkpoints if str(p.relative_to(root)) in result.stderr]
    assert named, result.stderr
    assert "it starts from an older checkpoint, or from the start of its sources" in result.stderr


def test_if_inputs_were_deleted_the_job_fails_with_an_explanation(jobs: dict[str, Path]) -> None:
    root = damaged(jobs["cancelled"], "status.json", Path.unlink)
    for path in (root / "checkpoints").rglob("*.ckpt"):
        flip(path)
    result = clean(call("resume", root, "--json"), "resume")
    error = json.loads(result.stdout.splitlines()[-1])["error"]
    assert result.exit_code == EXIT_FAILED
    assert "cannot restart: checkpoints/" in error
    assert "its only checkpoint, is corrupt or gone" in error
    assert "run the query again with another --root" in error
