"""Planted secrets appear only where the query itself stores them.

A job delivers to servers that are not there, with passwords of all kinds. Then its root, its
status, its logs, its messages and the output of the command are searched. Not covered: what a
user's own code prints.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import time
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import streamscope as ss
from jobmanager import options
from jobmanager.cli.main import app
from jobmanager.driver.notes import NoteWarning
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.rows.answer_rows import recorded_events
from jobmanager.replay.rows.capsules import make_capsule, open_capsule
from jobmanager.storage.query_file import query_file
from jobmanager.storage.root import JobRoot
from planner.explain.text import explain
from planner.physical.literal_secrets import source_notes
from planner.physical.lower import lower
from planner.sql.entry import sql
from rstream.errors import StreamEngineError, UsageError
from rvertex.sinks.spec import DeliveryPlace, destination
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rvertex.sinks.spec import SinkSpec

NOWHERE = "127.0.0.1:1"
#: Each is planted in one place, and searched for everywhere.
ENV, FILE, LITERAL = "planted-env-7f3a", "planted-file-91cc", "planted-literal-5d20"
PICKLES = {"query.pkl", "plan.pkl"}
SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr("rvertex.sinks.kafka.client.ANSWER_WAIT_S", 0.5)
    monkeypatch.setenv("PLANTED", ENV)
    monkeypatch.setenv("PLANTED_DSN", f"postgresql://me:{ENV}@{NOWHERE}/db")
    (tmp_path / "secret").write_text(FILE)
    before = os.umask(0o022)
    yield
    os.umask(before)


def sinks(kafka_password: str, *dsns: str) -> list[SinkSpec]:
    config = {**SASL, "sasl.password": kafka_password}
    made: list[SinkSpec] = [ss.sinks.kafka("t", servers=NOWHERE, config=config, name="k")]
    return made + [ss.sinks.postgres(dsn, "t", name=f"p{k}") for k, dsn in enumerate(dsns)]


def stream() -> ss.Stream:
    return ss.Stream.from_items({"x": "int64"}, [ss.event(t, x=t) for t in range(3)])


def run_until_it_waits(root: Path, specs: list[SinkSpec], **given: Any) -> list[str]:
    """Run until each destination was tried, then cancel. Return the statuses."""
    job = ss.run(stream().deliver(*specs), root=str(root), executor="local", **given)
    told, end_s = [], time.monotonic() + WAIT_S
    try:
        while time.monotonic() < end_s:  # until all have failed once
            status = job.status()
            told.append(json.dumps(status))
            rows = status.get("deliveries", [])
            if len(rows) >= len(specs) and all(row["error"] for row in rows):
                break
            time.sleep(0.05)
        assert all(row["error"] for row in rows), rows
    finally:
        job.cancel()
        told.append(json.dumps(job.wait()))
    return told


def holders(folder: Path, secret: str) -> set[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name for path in files if secret.encode() in path.read_bytes()}


@pytest.mark.slow
def test_secrets_referenced_by_a_query_are_stored_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    root = tmp_path / "root"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        told = run_until_it_waits(
            root,
            sinks(
                "env:PLANTED",
                "env:PLANTED_DSN",
                f"postgresql://me:file:{tmp_path}/secret@{NOWHERE}/db",
                "host=127.0.0.1 port=1 user=me password=env:PLANTED",
            ),
        )
    assert not [one for one in warned if issubclass(one.category, NoteWarning)]
    told += [shown(root), caplog.text, *capfd.readouterr()]
    for secret in (ENV, FILE):
        assert holders(root, secret) == set()
        assert not [text for text in told if secret in text]


def shown(root: Path) -> str:
    """Return the command's output about a job."""
    found = ""
    for verb in (["status"], ["status", "--json"], ["list"], ["logs"], ["gc", "--dry-run"]):
        done = CliRunner().invoke(app, [*verb, str(root)])
        found += done.output + done.stderr
    assert "cancelled" in found
    return found


@pytest.mark.slow
def test_a_password_in_the_query_is_noted_and_only_in_its_pickles(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    root, dsn = tmp_path / "root", f"postgresql://me:{LITERAL}@{NOWHERE}/db"
    with pytest.warns(NoteWarning) as warned:
        told = run_until_it_waits(root, sinks(LITERAL, dsn, f"host=127.0.0.1 password={LITERAL}"))
    notes = [str(one.message) for one in warned]
    assert len(notes) == 3
    assert all('"env:NAME" or "file:/PATH"' in note for note in notes)
    assert notes[0].startswith("delivery k: the query holds sasl.password itself")
    assert holders(root, LITERAL) == PICKLES
    told += [*notes, shown(root), caplog.text, *capfd.readouterr()]
    assert not [text for text in told if LITERAL in text]
    query = stream().deliver(*sinks(LITERAL, dsn))
    plan = lower(query, root="ROOT", parallelism=2)
    for form in ("text", "mermaid", "json"):
        assert LITERAL not in explain(plan, form)
    assert LITERAL not in repr(query) + repr(plan)


def test_a_topic_with_a_password_is_noted() -> None:
    topic = ss.Stream.from_kafka(
        "in",
        servers=NOWHERE,
        vs="t",
        schema={"t": "int64"},
        delay="1s",
        config={
            **SASL,
            "sasl.password": LITERAL,
            "ssl.key.password": "env:PLANTED",
            "schema.registry.url": f"http://me:{LITERAL}@{NOWHERE}",
        },
    )
    assert LITERAL not in repr(topic.plan)
    notes = source_notes(topic.plan.spec)  # type: ignore[attr-defined]
    assert [note.partition(" itself")[0] for note in notes] == [
        "topic in: the query holds sasl.password",
        "topic in: the query holds schema.registry.url",
    ]
    assert LITERAL not in "".join(notes)


CREATE = """
CREATE TABLE a (x BIGINT, t TIMESTAMP(3)) WITH ('path' = 'a.csv', 'vs' = 't');
CREATE TABLE b WITH ({options});
INSERT INTO b SELECT x FROM a"""
DSN = f"'dsn' = 'postgresql://me:{LITERAL}@h/d', 'table' = 't'"
TOPIC = f"'connector' = 'kafka', 'topic' = 't', 'servers' = '{NOWHERE}'"
WITH_PASSWORD = f"postgresql://me:{LITERAL}@"
PLACE = DeliveryPlace("job", "d", 0, 1, stream().schema)


def written(options: str) -> Callable[[], object]:
    return lambda: sql(CREATE.format(options=options))


def opened(spec: SinkSpec) -> Callable[[], object]:
    return lambda: destination(spec, PLACE).open(1)


MISTAKES: dict[str, Callable[[], object]] = {
    "sql: no such option": written(f"'connector' = 'postgres', {DSN}, 'tabel' = 't'"),
    "sql: no table": written(f"'connector' = 'postgres', 'dsn' = 'postgresql://me:{LITERAL}@h/d'"),
    "sql: no user": written(
        "'connector' = 'postgres', 'dsn' = 'postgresql://h/d', 'table' = 't', "
        f"'password' = '{LITERAL}'"
    ),
    "sql: two users": written(
        f"'connector' = 'postgres', {DSN}, 'username' = 'u', 'password' = '{LITERAL}'"
    ),
    "sql: a mode": written(f"'connector' = 'postgres', {DSN}, 'mode' = 'x'"),
    "sql: a mode of a topic": written(
        f"{TOPIC}, 'properties.sasl.password' = '{LITERAL}', 'mode' = 'x'"
    ),
    "sql: no such property": written(f"{TOPIC}, 'propertys.sasl.password' = '{LITERAL}'"),
    "python: no text": lambda: ss.Stream.from_kafka(
        "t", servers=NOWHERE, vs="x", schema={"x": "int64"}, delay="1s",
        config={"sasl.password": [LITERAL]},  # type: ignore[dict-item]
    ),
    "python: a column": lambda: stream().to_postgres(
        f"postgresql://me:{LITERAL}@h/d", "t", mode="upsert", key=["y"]
    ),
    "python: a path": lambda: ss.Stream.from_csv(f"ftp://me:{LITERAL}@127.0.0.1:1/x.csv", vs="t"),
    "python: an output": lambda: ss.run(
        stream().to_parquet(f"ftp://me:{LITERAL}@127.0.0.1:1/x"), executor="local"
    ),
    "python: a root": lambda: ss.run(
        stream(), root=f"ftp://me:{LITERAL}@127.0.0.1:1/x", executor="local"
    ),
    "registry": lambda: ss.Stream.from_kafka(
        "t", servers=NOWHERE, vs="x", format="avro", delay="1s",
        config={"schema.registry.url": f"http://me:{LITERAL}@{NOWHERE}"},
    ),
    "kafka: a wrong option": opened(
        ss.sinks.kafka(
            "t",
            servers=NOWHERE,
            config={**SASL, "sasl.mechanism": "x", "sasl.password": LITERAL},
        )
    ),
    "kafka: a token": opened(
        ss.sinks.kafka(
            "t", servers=NOWHERE,
            config={
                "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": LITERAL,
            },
        )
    ),
    "kafka: a key": opened(
        ss.sinks.kafka(
            "t", servers=NOWHERE, config={"security.protocol": "ssl", "ssl.key.pem": LITERAL}
        )
    ),
    "postgres: unreadable": opened(ss.sinks.postgres(f"host=h {LITERAL} password=x", "t")),
    "postgres: a port": opened(ss.sinks.postgres(f"{WITH_PASSWORD}127.0.0.1:x/d", "t")),
    "postgres: a database": opened(ss.sinks.postgres(f"{WITH_PASSWORD}{NOWHERE}/d", "t")),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_no_message_shows_a_secret(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StreamEngineError) as failed:
        MISTAKES[name]()
    told, error = [caplog.text], failed.value
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None:  # the text of a traceback
        chain.append(cause)
    told += [f"{one} {one!r} {getattr(one, '__notes__', '')}" for one in chain]
    assert not [text for text in told if LITERAL in text]


def modes(root: Path) -> set[tuple[bool, int]]:
    """For the root and all its files: whether it is a folder, and its mode."""
    found = [root, *root.rglob("*")]
    return {(p.is_dir(), stat.S_IMODE(p.stat().st_mode)) for p in found}


def test_a_root_is_readable_by_its_user_only(tmp_path: Path) -> None:
    table = pa.table({"t": [1, 2, 3], "x": [1, 2, 3]})
    query = ss.Stream.from_arrow(table, vs="t").group_by("x").window(ss.tumbling("1s"))
    counted = query.agg(n=ss.agg.count())
    ss.run(counted, root=str(tmp_path / "own"), executor="local").wait()
    assert modes(tmp_path / "own") == {(True, 0o700), (False, 0o600)}
    answer = counted.to_parquet(str(tmp_path / "answer"))
    ss.run(answer, root=str(tmp_path / "other"), executor="local").wait()
    assert modes(tmp_path / "answer") == {(True, 0o755), (False, 0o644)}
    ss.run(counted, root=str(tmp_path / "all"), executor="local", shared_root=True).wait()
    assert modes(tmp_path / "all") == {(True, 0o755), (False, 0o644)}
    config = ss.JobConfig(shared_root=True)
    ss.run(counted, root=str(tmp_path / "configured"), executor="local", config=config).wait()
    assert modes(tmp_path / "configured") == {(True, 0o755), (False, 0o644)}


def test_the_permissions_of_an_existing_root_are_unchanged() -> None:
    assert options.merged({"shared_root": True}, {"shared_root": True})["shared_root"] is True
    assert options.merged({}, {"shared_root": None}) == {}
    with pytest.raises(UsageError, match=r"ROOT/\.private"):
        options.merged({}, {"shared_root": True})
    with pytest.raises(UsageError, match="decided when a job begins"):
        options.merged({"shared_root": True}, {"shared_root": False})


@pytest.mark.slow
def test_a_capsule_has_no_secret_of_its_job(tmp_path: Path) -> None:
    """Neither the plan nor the query file in a capsule has the password of the job."""
    code, root, made = tmp_path / "query.py", tmp_path / "root", tmp_path / "row.zip"
    dsn = f"postgresql://me:{LITERAL}@{NOWHERE}/db"
    code.write_text(f"DSN = {dsn!r}\nCONFIG = {{'sasl.password': {LITERAL!r}}}\npassword = 'x y'\n")
    specs = sinks(LITERAL, dsn)
    file = query_file(str(code))
    with pytest.warns(NoteWarning):
        job = ss.run(stream().deliver(*specs), root=str(root), executor="local", query_file=file)
    try:
        end_s = time.monotonic() + WAIT_S
        while durable_rows(str(root)) < 3:
            assert time.monotonic() < end_s
            time.sleep(0.05)
    finally:
        job.cancel()
        job.wait()
    make_capsule(str(root), "x = 1", str(made))
    assert open_capsule(str(made), trust=True).is_reproduced()
    with zipfile.ZipFile(made) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert not [name for name, data in files.items() if LITERAL.encode() in data]
    assert not [name for name, data in files.items() if b"x y" in data]
    assert b"DSN = 'postgresql://me:*******" in files["code/query.py"]


def durable_rows(root: str) -> int:
    """Rows of the result that can be read; the job is still writing its files."""
    try:
        plan = Recorded(JobRoot(root)).plan
        return sum(events.num_rows for _, events in recorded_events(plan))
    except StreamEngineError:
        return 0
