"""Jobs of former releases continue with this one, and stored records may have unknown fields.

Not covered: state of operators that the stored queries do not use.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

import streamscope as ss
from jobmanager.state.messages import LOG_CODEC, LOG_OLDEST, LOG_VERSION, JobStarted
from jobmanager.storage import ownership, root
from jobmanager.storage.documents import pickle_document, read_pickle_document
from jobmanager.storage.root import FORMAT, OLDEST_FORMAT, JobRoot
from rstream.errors import InvalidMessageError
from rvertex.checkpoint import codec
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.checkpoint.header import checksum
from rvertex.errors import CheckpointFormatError
from rvertex.messages import CheckpointTaken, Counts, VertexFinished
from rvertex.operators.protocol import OperatorState
from rvertex.sources.logs.entries import LogEntry, decode_entries, encode_entries
from rvertex.user_code import stored
from rvertex.user_code.errors import StoredRecordError
from rvertex.user_code.unpickle import load_shipped
from rvertex.vertex.spec import Recovery, Snapshot, VertexId
from tests.support import stored_roots
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVES = sorted(stored_roots.FOLDER.glob("format-*.tar.xz"))
TAKEN = CheckpointTaken("v", 1, "c", (1,), (2,), 3, (1,), ("p",), 5, False)


def test_every_readable_format_has_a_stored_root() -> None:
    formats = {int(path.name.split("-")[1]) for path in ARCHIVES}
    assert formats >= set(range(OLDEST_FORMAT, FORMAT + 1))


@pytest.fixture(scope="module")
def expected() -> list[tuple[Any, ...]]:
    """The result of one run over both days."""
    stored_roots.clear()
    for number in (0, 1):
        stored_roots.put_day(number)
    query = stored_roots.query(strong=False)
    job = ss.run(query, root=f"{stored_roots.PLACE}/whole", executor="local")
    job.wait(WAIT_S)
    return stored_roots.rows_of(job)


@pytest.mark.slow
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def test_a_root_of_a_former_release_is_resumed(
    archive: Path, expected: list[tuple[Any, ...]]
) -> None:
    stored_roots.unpack(archive)
    if "strong" in archive.name:  # the query that is given again equals the stored one
        stored_roots.put_day(1)
        again = stored_roots.query(strong=True)
        job = ss.run(again, root=stored_roots.JOB, executor="local", continue_=True, finish=True)
        job.wait(WAIT_S)
    else:
        job = stored_roots.end()
    assert job.status()["state"] == "finished"
    assert stored_roots.rows_of(job) == expected
    assert len(expected) > 5 * stored_roots.ROWS


def other_fields(data: bytes, *, without: str) -> bytes:
    """The bytes of a notice with an unknown field, and without an optional one."""
    version, kind, fields = msgpack.unpackb(data)
    del fields[without]
    changed: bytes = msgpack.packb([version, kind, {"new": [1], **fields}])
    return changed


def test_a_stored_notice_takes_defaults_and_ignores_unknown_fields() -> None:
    finished = VertexFinished("v", 1, (1,), (2,), (b"d",), Counts(5, 6))
    version, kind, fields = msgpack.unpackb(LOG_CODEC.encode(finished))
    fields["counts"] = {"events_in": 5, "events_out": 6, "rows_of_a_later_release": 7}
    changed = msgpack.packb([version, kind, {**fields, "new": {"a": 1}}])
    assert LOG_CODEC.decode(changed) == finished
    started = JobStarted(2, 5)
    assert LOG_CODEC.decode(other_fields(LOG_CODEC.encode(started), without="retain_us")) == started


@pytest.mark.parametrize("version", [LOG_OLDEST - 1, LOG_VERSION + 1])
def test_a_notice_of_another_version_is_rejected_by_its_name(version: int) -> None:
    _, kind, fields = msgpack.unpackb(LOG_CODEC.encode(TAKEN))
    with pytest.raises(InvalidMessageError, match=f"CheckpointTaken has version {version}"):
        LOG_CODEC.decode(msgpack.packb([version, kind, fields]))


def test_an_entry_of_a_log_takes_defaults_and_ignores_unknown_fields() -> None:
    entry = LogEntry("lost", 0, 3, 7, until=9)
    (row,) = msgpack.unpackb(encode_entries([entry]))
    del row["version"], row["path"], row["time"]
    assert decode_entries(msgpack.packb([{**row, "new": 1}])) == [entry]


SNAPSHOT = Snapshot(VertexId("v"), "s", (1,), (2,), (b"d",), (OperatorState({"drawn": 1}, {}),))


def changed_manifest(change: Any) -> bytes:
    """The manifest of SNAPSHOT with a changed header."""
    data, start = encode_snapshot(SNAPSHOT), len(codec.MAGIC) + 8
    header = msgpack.unpackb(data[start:-16])
    change(header)
    packed = msgpack.packb(header)
    body = codec.MAGIC + len(packed).to_bytes(8, "little") + packed
    return body + checksum(body)


def test_a_checkpoint_takes_defaults_and_ignores_unknown_fields() -> None:
    def change(header: dict[str, Any]) -> None:
        del header["events_out"], header["replay_from"]
        header["new"] = {"a": [1]}
        header["states"][0]["new"] = 1

    found = decode_snapshot(changed_manifest(change), name="c", state_schema="s")
    assert found == SNAPSHOT


@pytest.mark.parametrize("number", [codec.OLDEST - 1, int(codec.MAGIC[-2:]) + 1])
def test_a_checkpoint_of_another_format_is_rejected(number: int) -> None:
    data = bytearray(encode_snapshot(SNAPSHOT)[:-16])
    data[6:8] = b"%02d" % number
    with pytest.raises(CheckpointFormatError, match=f"SSCKPT{number:02d}"):
        decode_snapshot(bytes(data) + checksum(data), name="c", state_schema="s")


WRITTEN = Recovery("strong", 2, 7)


def with_class(monkeypatch: pytest.MonkeyPatch, *names: Any) -> type:
    """Replace ``Recovery`` by a class with these fields, as another release may define it."""
    made = make_dataclass("Recovery", names, frozen=True, slots=True)
    made.__module__ = Recovery.__module__
    monkeypatch.setattr("rvertex.vertex.spec.Recovery", made)
    return made


def test_a_stored_plan_is_read_by_field_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new field comes first; plain pickles would read each value into the next field."""
    data = pickle_document(WRITTEN)
    later = with_class(
        monkeypatch,
        ("added", str, "x"),
        ("horizon_us", int, 0),
        ("strategy", str, ""),
        ("replicas", int, 0),
    )
    assert read_pickle_document(data) == later("x", 7, "strong", 2)


def test_a_stored_plan_without_a_field_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle_document(WRITTEN)
    with_class(monkeypatch, ("strategy", str), ("replicas", int), ("horizon_us", int), ("to", str))
    with pytest.raises(StoredRecordError, match=r"record Recovery: it lacks field 'to'; resume"):
        read_pickle_document(data)


def test_a_stored_plan_with_an_unknown_field_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The field may change the plan, unless this release knows that it has no effect."""
    data = pickle_document(WRITTEN)
    later = with_class(monkeypatch, ("strategy", str), ("horizon_us", int))
    with pytest.raises(StoredRecordError, match="does not know field 'replicas'"):
        read_pickle_document(data)
    monkeypatch.setattr(stored, "RETIRED", {("Recovery", "replicas")})
    assert read_pickle_document(data) == later("strong", 7)


def test_a_moved_class_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle_document(WRITTEN).replace(b"rvertex.vertex.spec", b"rvertex.vertex.former")[24:]
    moved = {("rvertex.vertex.former", "Recovery"): ("rvertex.vertex.spec", "Recovery")}
    monkeypatch.setattr("rvertex.user_code.unpickle.MOVED", moved)
    sized = data.replace(b"\x8c\x13rvertex.vertex.former", b"\x8c\x15rvertex.vertex.former")
    assert load_shipped(unframed(sized), to_run=False) == WRITTEN


def unframed(data: bytes) -> bytes:
    """A pickle without the frame, whose length is now wrong."""
    at = data.index(b"\x95")
    return data[:at] + data[at + 9 :]


def test_a_resumed_root_gets_the_format_of_this_release(monkeypatch: pytest.MonkeyPatch) -> None:
    job_root = JobRoot("memory://upgraded/job")
    job_root.create(None, {"id": "1"}, now_us=0)  # type: ignore[arg-type]
    job_root.claim(0)
    for module in (root, ownership):
        monkeypatch.setattr(module, "FORMAT", FORMAT + 1)
    assert job_root.readable_settings()["format"] == FORMAT
    ownership.upgrade(job_root)
    assert job_root.readable_settings() == {"format": FORMAT + 1, "id": "1"}
