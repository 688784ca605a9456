"""Sockets beside TCP: who finds one uses it, nobody else is hindered, and none is left."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rstream import local_sockets
from rstream.flight import StreamServer
from rstream.local_sockets import is_answered, near_path, new_socket_path, tcp_part, with_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="s") as short:  # a test's own folder has a long name
        monkeypatch.setattr(tempfile, "gettempdir", lambda: short)
        yield Path(short) / f"streamscope-sockets-{os.getuid()}"


def test_a_server_has_a_socket_while_it_lives(folder: Path) -> None:
    server = StreamServer("127.0.0.1", "secret", beside=True)
    tcp, _, path = server.address.partition("#")
    assert Path(path).parent == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert near_path(server.address) == path
    server.close()
    assert list(folder.iterdir()) == []
    assert (near_path(server.address), tcp_part(server.address)) == (None, tcp)


def test_an_address_of_another_machine_is_reached_by_tcp(folder: Path) -> None:
    assert near_path("grpc://host:1") is None
    assert near_path(with_socket("grpc://host:1", "/nowhere/s")) is None
    server = StreamServer("127.0.0.1", "secret")
    assert (near_path(server.address), tcp_part(server.address)) == (None, server.address)
    server.close()


def test_sockets_of_killed_processes_are_removed(folder: Path) -> None:
    left, lives = str(new_socket_path()), str(new_socket_path())
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind(left)
        two.bind(lives)
        two.listen()
        one.close()
        assert not is_answered(left)
        new_socket_path()
        assert [p.name for p in folder.iterdir()] == [Path(lives).name]


def test_a_folder_that_others_may_enter_is_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert new_socket_path() is None


def no_folder(short: Path, patch: pytest.MonkeyPatch) -> None:
    """A file stands where the folder has to be."""
    short.parent.mkdir(exist_ok=True)
    short.write_text("x")


def a_long_name(short: Path, patch: pytest.MonkeyPatch) -> None:
    deep = short.parent / ("x" * 100)
    deep.mkdir()
    patch.setattr(tempfile, "gettempdir", lambda: str(deep))


def no_place(short: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tempfile, "gettempdir", lambda: "/proc/nowhere")


def a_name_that_cannot_be_bound(short: Path, patch: pytest.MonkeyPatch) -> None:
    path = str(short / "missing" / "s")
    patch.setattr(local_sockets, "new_socket_path", lambda: path)


@pytest.mark.parametrize("trouble", [no_folder, a_long_name, no_place, a_name_that_cannot_be_bound])
def test_without_a_socket_there_is_tcp_and_one_warning(
    trouble: Callable[[Path, pytest.MonkeyPatch], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    local_sockets._none.cache_clear()
    trouble(folder, monkeypatch)
    for _ in range(2):
        server = StreamServer("127.0.0.1", "secret", beside=True)
        assert "#" not in server.address
        host, port = server.address.removeprefix("grpc://").split(":")
        socket.create_connection((host, int(port))).close()
        server.close()
    (told,) = [r.getMessage() for r in caplog.records if r.name == "rstream.local_sockets"]
    assert told.startswith("readers on this machine use TCP, because")


def test_a_path_that_is_too_long_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(deep))
    assert new_socket_path() is None
