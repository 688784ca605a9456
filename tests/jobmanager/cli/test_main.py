"""The command as a user meets it: results, JSON, and one message for every mistake.

Most tests call it in this process; tests of signals, of Java and of several processes start real
ones. Not covered: the look on a terminal (test_view.py renders it).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from jobmanager import logs
from jobmanager.cli.exits import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from jobmanager.cli.main import app
from jobmanager.cli.results import SUMMARY
from jobmanager.storage.root import JobRoot
from tests.rooms import ROOT
from tests.support.jobs import ROWS, WAIT_S, output_items, write_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.testing import Result

REPOSITORY = ROOT
QUERY = """
from planner import Stream, agg, col, session, tumbling
from pathlib import Path

events = Stream.from_parquet(str(Path(__file__).parent / "events.parquet"), vs="t", delay="1s")
query = events.group_by("key").window(tumbling("1s")).agg(n=agg.count()).to_parquet()
stream = events.filter(col("key") == 1)

def made():
    return stream

def broken():
    return stream.filter(col("kee") == 1)

def mistyped():
    return stream.filter(col("key") == "one")

def endless():
    return events.group_by("key").window(tumbling("1 fortnight")).agg(n=agg.count())

def missing():
    return Stream.from_parquet("no/such/file.parquet", vs="t")

def taken():
    return stream.to_parquet(str(Path(__file__).parent))

def sessions():
    return events.group_by("key").window(session("1s")).agg(n=agg.count())

number = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A query file beside its data."""
    write_events(tmp_path / "events.parquet")
    path = tmp_path / "queries.py"
    path.write_text(QUERY)
    return path


@pytest.fixture(autouse=True)
def _quiet_logs() -> Iterator[None]:
    """Send logs to the test's standard error, and undo that at its end."""
    yield
    logs.configure(verbose=False)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def done(*arguments: object) -> Result:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result


def last_json(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def run_job(file: Path, root: Path, *more: object) -> dict[str, Any]:
    return last_json(done("run", file, "--root", root, "--executor", "local", "--json", *more))


# ---- results


def test_run_status_list_resume_cancel(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "jobs" / "one"
    result = run_job(file, root)
    assert tuple(result) == SUMMARY
    assert {"state": "finished", "job": "one", "events_in": ROWS}.items() <= result.items()
    assert result["restarts"] == 0
    assert result["output"] == str(root / "output")
    assert len(result["output_digest"]) == 32
    assert result["elapsed_s"] >= 0

    status = last_json(done("status", root, "--json"))
    assert {k: status[k] for k in ("state", "output_digest", "events_out")} == {
        k: result[k] for k in ("state", "output_digest", "events_out")
    }
    assert {"vertex", "epoch", "host", "pid", "state"} <= status["vertices"][0].keys()

    assert last_json(done("list", tmp_path / "jobs", "--json")) == {
        "jobs": [
            {"job": "one", "state": "finished", "root": str(root), "health": "ok", "reasons": []}
        ],
        "unread": {},
    }
    resumed = last_json(done("resume", root, "--json"))
    assert resumed == {**result, "notes": resumed["notes"], "query_changed": False}
    cancelled = call("cancel", root, "--json")
    assert cancelled.exit_code == EXIT_USAGE
    assert "is not running, it is finished" in last_json(cancelled)["error"]


def test_the_same_commands_with_text_output(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "jobs" / "one"
    ran = done("run", file, "--root", root, "--executor", "local")
    assert f"output: {root}/output" in ran.stdout
    assert "digest: " in ran.stdout
    lines = ran.stderr.splitlines()
    assert lines
    assert all(line.startswith("one ") for line in lines), "plain lines without a terminal"
    assert "finished: 4/4 vertices finished" in lines[-1]
    table = done("status", root).stdout
    assert "one: finished" in table
    assert "s01-events.0" in table
    assert done("list", tmp_path / "jobs").stdout.split() == ["one", "finished", str(root)]
    assert done("list", root).stdout.split() == ["one", "finished", str(root)]
    assert done("list", tmp_path / "nothing").stdout == ""
    assert "no job in or directly below" in done("list", tmp_path / "nothing").stderr
    assert "digest: " in done("resume", root).stdout


def test_digest_does_not_depend_on_hosts_or_names(file: Path, tmp_path: Path) -> None:
    one = run_job(file, tmp_path / "one")
    many = run_job(f"{file}:query", tmp_path / "many", "--hosts", 3)  # type: ignore[arg-type]
    assert many["output_digest"] == one["output_digest"]
    made = run_job(f"{file}:made", tmp_path / "made")  # type: ignore[arg-type]
    stream = run_job(f"{file}:stream", tmp_path / "stream")  # type: ignore[arg-type]
    assert made["output_digest"] == stream["output_digest"] != one["output_digest"]


def test_explain_prints_the_plan_in_every_format(file: Path) -> None:
    text = done("explain", file).stdout
    assert "s02-agg" in text
    assert done("explain", file, "--mermaid").stdout.startswith(("flowchart", "graph"))
    assert done("explain", file, "--format", "mermaid").stdout.startswith("flowchart")
    found = last_json(done("explain", file, "--parallelism", 3, "--json"))
    assert found["stages"][1]["vertices"] == ["s02-agg.0", "s02-agg.1", "s02-agg.2"]
    auto = json.loads(done("explain", file, "--parallelism", "auto", "--format", "json").stdout)
    assert auto["parallelism"] == 1, "sixty rows are no work"
    assert "neither a number nor 'auto'" in call("explain", file, "--parallelism", "x").stderr


def test_explain_shows_the_plan_of_a_paced_job(file: Path, tmp_path: Path) -> None:
    target = f"{file}:sessions"
    fast = last_json(done("explain", target, "--json"))
    paced = last_json(done("explain", target, "--paced", 1_000_000, "--json"))
    horizons = [found["stages"][0]["recovery"]["horizon_us"] for found in (fast, paced)]
    assert horizons == [1_000_000, 100_000], "a pane"
    run_job(target, tmp_path / "job", "--paced", 1_000_000)  # type: ignore[arg-type]
    plan = JobRoot(str(tmp_path / "job")).read_plan()
    assert plan is not None
    assert plan.vertices[0].recovery.horizon_us == horizons[1]


# ---- mistakes


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("queries.py:broken", "queries.py, line 13: no column 'kee'"),
        ("queries.py:mistyped", "queries.py, line 16: "),
        ("queries.py:endless", "queries.py, line 19: "),
        ("queries.py:missing", "no/such/file.parquet: No such file or directory"),
        ("queries.py:taken", "the folder is not empty"),
        ("queries.py:nothing", "no query named 'nothing'; it defines"),
        ("queries.py:number", "'number' is of type int, not a Query or Stream"),
        ("nowhere.py", "nowhere.py: no such file"),
        ("raises.py", "raises.py: line 2: ZeroDivisionError: division by zero"),
        ("syntax.py", "syntax.py: SyntaxError"),
        ("leaves.py", "leaves.py: line 1: SystemExit"),
        ("bare.py", "bare.py: line 2: Mine: gone"),
        ("silent.py", "silent.py: line 4: Mine: its text cannot be shown, ZeroDivisionError"),
        ("notes.txt", "not a Python file"),
    ],
)
def test_a_mistake_is_reported_in_one_message(target: str, message: str, file: Path) -> None:
    folder = file.parent
    (folder / "raises.py").write_text("\n1 / 0\n")
    (folder / "syntax.py").write_text("query = (\n")
    (folder / "leaves.py").write_text("raise SystemExit(3)\n")
    (folder / "notes.txt").write_text("hello\n")
    (folder / "bare.py").write_text("class Mine(BaseException): pass\nraise Mine('gone')\n")
    silent = "class Mine(Exception):\n    def __str__(self):\n        1 / 0\nraise Mine\n"
    (folder / "silent.py").write_text(silent)
    result = call("run", folder / target, "--root", folder / "job", "--executor", "local", "--json")
    assert result.exit_code == EXIT_USAGE, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("jobmanager: error: ")
    assert message in line
    told = last_json(result)
    assert told["state"] == "failed"
    assert f"jobmanager: error: {told['error']}" == line


@pytest.mark.parametrize("before", ["", "./", "../queries/"])
def test_a_mistake_has_its_line_for_any_path_to_the_file(
    before: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = file.parent / "queries"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "raises.py").write_text("\n1 / 0\n")
    (folder / "queries.py").write_text(file.read_text())
    raised = call("explain", f"{before}raises.py").stderr
    assert "raises.py: line 2: ZeroDivisionError" in raised
    assert "queries.py, line 5: source" in call("explain", f"{before}queries.py").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "q.py", "--parallelism", "x"), "'x' is neither a number nor 'auto' ("),
        (("run", "q.py", "--nope"), "No such option: --nope"),
        (("--nope",), "No such option: --nope"),
        (("resume",), "Missing argument 'ROOT'"),
        (("resumee",), "No such command 'resumee'"),
        (("resume", "r", "--executor", "x"), "'x' is not one of 'spark', 'local'"),
    ],
)
def test_an_invalid_call_is_reported_like_other_mistakes(
    arguments: tuple[str, ...], message: str
) -> None:
    result = call(*arguments, "--json")
    assert result.exit_code == EXIT_USAGE
    (line,) = result.stderr.splitlines()
    assert message in line
    assert line == f"jobmanager: error: {last_json(result)['error']}"
    assert line.endswith(" --help)")
    plain = call(*arguments)
    assert (plain.exit_code, plain.stdout, plain.stderr.splitlines()) == (EXIT_USAGE, "", [line])


def test_the_version_equals_that_of_the_package() -> None:
    result = call("--version")
    assert (result.exit_code, result.stdout) == (0, f"streamscope {version('streamscope')}\n")


def test_finish_without_a_day_is_rejected_with_the_names_of_the_options(file: Path) -> None:
    told = last_json(call("run", file, "--finish", "--json"))["error"]
    assert told == "--finish needs --continue ROOT"


def test_mistakes_about_roots(file: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    for root, status in ((tmp_path / "plain" / "job", EXIT_FAILED), ("x://y/z", EXIT_FAILED)):
        result = call("run", file, "--root", root, "--executor", "local")
        assert result.exit_code == status
        (line,) = result.stderr.splitlines()
        assert line.startswith("jobmanager: error: store")
    for verb in ("status", "cancel", "resume"):
        result = call(verb, tmp_path / "nothing")
        assert result.exit_code == EXIT_USAGE
        assert (
            result.stderr == f"jobmanager: error: {tmp_path}/nothing is not the folder of a job\n"
        )
    run_job(file, tmp_path / "job")
    again = call("run", file, "--root", tmp_path / "job", "--executor", "local")
    assert again.exit_code == EXIT_USAGE
    assert "already holds a job (finished)" in again.stderr


def test_a_wrong_option_is_a_usage_error_and_starts_no_job(file: Path) -> None:
    for options in (
        ["--executor", "flink"],
        ["--parallelism", "0"],
        ["--hosts", "0"],
        ["--paced", "-1", "--executor", "local"],
        ["--frobnicate"],
        ["--replicas", "0"],
        ["--recovery", "hope"],
        ["--checkpoint-bytes", "many", "--executor", "local"],
        ["--retain", "long", "--executor", "local"],
    ):
        result = call("run", file, "--root", file.parent / "job", *options)
        assert result.exit_code == EXIT_USAGE, (options, result.output)
    assert not (file.parent / "job").exists()
    for verb in ("explain", "validate"):
        result = call(verb, file, "--paced", "-1")
        assert result.exit_code == EXIT_USAGE
        assert "paced must be positive" in result.stderr
    few = ["--replicas", "2", "--hosts", "1", "--executor", "local"]
    result = call("run", file, "--root", file.parent / "job", *few)
    assert result.exit_code == EXIT_USAGE
    assert "2 replicas need as many hosts" in result.stderr


def test_a_failed_job_says_how_to_continue(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("t,k\n1,a\n2,b\n")
    (data / "b.csv").write_text("t,k\n3,a\n,b\n")
    file = tmp_path / "query.py"
    file.write_text(
        "from planner import Stream\n"
        f"query = Stream.from_csv({str(data)!r}, vs='t', delay=0, partitions=1).to_parquet()\n"
    )
    root = tmp_path / "job"
    failed = call("run", file, "--root", root, "--executor", "local", "--json")
    assert failed.exit_code == EXIT_FAILED
    told = last_json(failed)
    assert tuple(told) == SUMMARY
    assert told["state"] == "failed"
    assert "b.csv: data row 2 (line 3)" in told["error"]
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("jobmanager: error: job job failed: ")
    assert last.endswith(
        f"(resume with: jobmanager resume {root}; it continues with the stored query)"
    )
    assert last_json(done("status", root, "--json"))["state"] == "failed"
    listed = done("list", tmp_path).stdout
    assert "job  failed" in listed
    assert "b.csv: data row 2 (line 3)" in listed
    (data / "b.csv").write_text("t,k\n3,a\n4,b\n")
    refused = call("resume", root)
    assert refused.exit_code == EXIT_FAILED
    assert "b.csv (11 bytes" in refused.stderr
    accepted = done("resume", root, "--accept-changed-inputs", "--json")
    assert last_json(accepted)["events_in"] == 4


# ---- processes


#: The command, with sources that never return a row.
HELD = """
from jobmanager.cli.main import main
from tests.support.gate import SourceGate
gate = SourceGate()
gate.close_at_time(-1)
gate.stand()
main()
"""


def start(
    *arguments: object, program: tuple[str, ...] = ("-m", "jobmanager"), **environment: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    return process.returncode, out, err


def first_line(process: subprocess.Popen[str]) -> str:
    """Wait for the first progress line, by which time the job's hosts have been started."""
    assert process.stderr is not None
    return process.stderr.readline()


def children(pid: int) -> list[str]:
    """The commands of the processes below ``pid``."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().rpartition(")")[::2]
        except OSError:
            continue
        if int(rest.split()[1]) == pid:
            child = int(stat.parent.name)
            found += [name.partition("(")[2], *children(child)]
    return found


@pytest.mark.slow
def test_another_process_sees_the_job_and_cancels_it(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"
    process = start("run", file, "--root", root, "--executor", "local", "--paced", 0.05, "--json")
    assert "job running: 0/4 vertices finished" in first_line(process)
    seen = last_json(done("status", root, "--json"))
    assert seen["state"] == "running"
    assert seen["pid"] == process.pid
    assert children(process.pid) == ["python"], "no Java; one that ends a frozen process"
    for verb, message in (("resume", "already running"), ("run", "already holds a job (running)")):
        target = [verb, root] if verb == "resume" else [verb, file, "--root", root]
        refused = call(*target, "--executor", "local")
        assert refused.exit_code == EXIT_USAGE
        assert message in refused.stderr
    for host, reason in (("h0.0", "there is no other host"), ("h9.0", "its hosts are h0.0")):
        refused = call("drain", host, root)
        assert refused.exit_code == EXIT_USAGE
        assert f"host {host} cannot be drained" in refused.stderr
        assert reason in refused.stderr
    assert f"the host comes first: drain h0.0 {root}" in call("drain", root, "h0.0").stderr
    assert call("gc", root).exit_code == EXIT_USAGE
    assert last_json(done("cancel", root, "--json")) == {"job": "job", "cancel": "requested"}
    code, out, err = finish(process)
    assert code == EXIT_FAILED
    assert json.loads(out.splitlines()[-1])["state"] == "cancelled"
    assert f"cancelled (resume with: jobmanager resume {root})" in err
    assert last_json(done("status", root, "--json"))["state"] == "cancelled"


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Reset SIGINT: background processes of a shell ignore it, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.slow
def test_an_interrupt_cancels_the_job(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"
    process = start("run", file, "--root", root, "--executor", "local", "--paced", 0.05, "--json")
    first_line(process)
    deadline_s = time.monotonic() + WAIT_S
    while not JobRoot(str(root)).read_status().get("events_in"):  # by then the command waits for it
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == EXIT_INTERRUPTED
    assert json.loads(out.splitlines()[-1])["state"] == "cancelled"
    assert "Traceback" not in err
    assert JobRoot(str(root)).read_status()["state"] == "cancelled"


@pytest.mark.slow
def test_a_killed_job_manager_is_shown_as_interrupted(file: Path, tmp_path: Path) -> None:
    root, clean = tmp_path / "job", run_job(file, tmp_path / "clean")
    process = start("run", file, "--root", root, "--executor", "local", program=("-c", HELD))
    first_line(process)
    process.kill()
    finish(process)
    seen = last_json(done("status", root, "--json"))
    assert seen["state"] == "interrupted"
    assert f"jobmanager resume {root}" in seen["error"]
    assert "interrupted" in done("status", root).stdout
    listed = done("list", tmp_path).stdout
    assert listed.count("interrupted") == 1
    assert "degraded: its job manager is gone" in listed
    assert call("cancel", root).exit_code == EXIT_USAGE
    resumed = last_json(done("resume", root, "--json"))
    assert resumed["output_digest"] == clean["output_digest"]
    assert output_items(resumed["output"]) == output_items(clean["output"])


@pytest.mark.slow
def test_a_missing_java_is_an_error_with_the_package_to_install(file: Path, tmp_path: Path) -> None:
    """The error names the package to install; then the same command works."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("bash", "sh", "dirname", "basename", "ps", "env", "uname"):
        found = next(p for d in ("/bin", "/usr/bin") if (p := Path(d, tool)).exists())
        (folder / tool).symlink_to(found)
    root = tmp_path / "job"
    code, out, err = finish(
        start("run", file, "--root", root, "--json", PATH=str(folder), JAVA_HOME="")
    )
    assert code == EXIT_FAILED
    (line,) = err.splitlines()
    assert line.startswith("jobmanager: error: ")
    assert "Java 17" in line
    assert json.loads(out.splitlines()[-1])["state"] == "failed"
    assert run_job(file, root)["state"] == "finished"


@pytest.mark.slow
def test_status_starts_no_java(file: Path, tmp_path: Path) -> None:
    """Java is not on the path, so ``status`` would fail if it started Java."""
    run_job(file, tmp_path / "job")
    for arguments in (["status", tmp_path / "job"], ["list", tmp_path], ["explain", file]):
        code, _, err = finish(start(*arguments, PATH="", JAVA_HOME=""))
        assert (code, err) == (0, "")


@pytest.mark.slow
def test_python_without_assertions_is_rejected() -> None:
    process = subprocess.run(
        [sys.executable, "-O", "-m", "jobmanager", "list"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert process.returncode == EXIT_USAGE
    assert process.stderr == "jobmanager: assertions guard the data; run Python without -O\n"
