"""Unix sockets beside TCP: readers that find one use it, others use TCP, and none is left over."""

from __future__ import annotations

import errno
import os
import socket
import stat
import tempfile
import threading
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rstream import MemoryBlobs
from rstream.transport import local_sockets
from rstream.transport.flight import RemoteReader, StreamServer
from rstream.transport.local_sockets import (
    SWEEP_AFTER_S,
    is_left_over,
    new_socket_path,
    socket_path,
    tcp_part,
    with_socket,
)
from rstream.transport.unix_socket import WAITING_MAX
from tests.support.content import items, open_inline, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # the test's own folder has too long a name
    with tempfile.TemporaryDirectory(prefix="s") as short:
        monkeypatch.setattr(tempfile, "gettempdir", lambda: short)
        yield Path(short) / f"streamscope-sockets-{os.getuid()}"


def test_a_server_has_a_socket_until_it_is_closed(folder: Path) -> None:
    server = StreamServer("127.0.0.1", "secret", beside=True)
    tcp, _, path = server.address.partition("#")
    assert Path(path).parent == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert socket_path(server.address) == path
    server.close()
    assert list(folder.iterdir()) == []
    assert tcp_part(server.address) == tcp


def test_an_address_without_a_socket(folder: Path) -> None:
    assert socket_path("grpc://host:1") is None
    assert socket_path(with_socket("grpc://host:1", None)) is None
    assert socket_path(with_socket("grpc://host:1", "/nowhere/s")) == "/nowhere/s"
    server = StreamServer("127.0.0.1", "secret")
    assert (socket_path(server.address), tcp_part(server.address)) == (None, server.address)
    server.close()


@contextmanager
def nobody_there(path: str) -> Iterator[None]:
    """As if the reader were on another machine."""
    yield


@contextmanager
def nobody_any_more(path: str) -> Iterator[None]:
    """Leave the socket as a killed process does."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    yield


@contextmanager
def no_room(path: str) -> Iterator[None]:
    """The maximum number of connections waits."""
    with socket.socket(socket.AF_UNIX) as busy, ExitStack() as waiting:
        fill(busy, path, waiting)
        yield


@contextmanager
def no_answer(path: str) -> Iterator[None]:
    """A server listens, but closes every connection."""
    with socket.socket(socket.AF_UNIX) as rude:
        rude.bind(path)
        rude.listen()
        thread = threading.Thread(target=lambda: rude.accept()[0].close())
        thread.start()
        yield
        thread.join()


def fill(busy: socket.socket, path: str, waiting: ExitStack) -> None:
    """Make ``busy`` listen, and fill its queue of waiting connections."""
    busy.bind(path)
    busy.listen(0)
    for _ in range(WAITING_MAX):
        connection = waiting.enter_context(socket.socket(socket.AF_UNIX))
        connection.setblocking(False)
        if connection.connect_ex(path) == errno.EAGAIN:
            return
    pytest.fail("there was room for all")


@pytest.mark.parametrize("trouble", [nobody_there, nobody_any_more, no_room, no_answer])
def test_a_reader_without_a_response_from_the_socket_uses_tcp(
    trouble: Callable[[str], AbstractContextManager[None]], folder: Path
) -> None:
    path = str(new_socket_path())
    stream = open_inline(MemoryBlobs(), durability="volatile")
    stream.append(items(0, 5))
    server = StreamServer("127.0.0.1", "secret")
    server.publish("s", 1, stream)
    with trouble(path):
        reader = RemoteReader(with_socket(server.address, path), "secret", "s", 1, 0)
        assert reader.wait(60)
        found = reader.read_next()
        assert found is not None
        assert rows_of([found]) == items(0, 5).to_pylist()
        assert not reader.is_broken
        reader.close()
        reader.join()
    server.close()


def test_sockets_of_killed_processes_are_removed(folder: Path) -> None:
    left, lives, full, starts = (str(new_socket_path()) for _ in range(4))
    with ExitStack() as open_sockets:
        one, two, busy, late = (
            open_sockets.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(4)
        )
        one.bind(left)
        two.bind(lives)
        two.listen()
        one.close()
        fill(busy, full, open_sockets)
        for path in (left, lives, full):
            make_old(path)
        late.bind(starts)
        assert [p for p in (left, lives, full, starts) if is_left_over(p)] == [left]
        new_socket_path()
        assert sorted(map(str, folder.iterdir())) == sorted([lives, full, starts])
        make_old(starts)
        new_socket_path()
        assert sorted(map(str, folder.iterdir())) == sorted([lives, full])


def make_old(path: str) -> None:
    at_s = os.stat(path).st_mtime - 2 * SWEEP_AFTER_S
    os.utime(path, (at_s, at_s))


def test_sockets_are_not_removed_if_their_listener_is_unknown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(new_socket_path())
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    make_old(path)

    def no_file(*args: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", no_file)
        assert not is_left_over(path)
    assert is_left_over(path)
    assert not is_left_over(f"{path}-that-is-gone")


def test_a_folder_accessible_to_others_is_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert new_socket_path() is None


def no_folder(short: Path, patch: pytest.MonkeyPatch) -> None:
    """A file exists at the path of the folder."""
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
def test_without_a_socket_readers_use_tcp_and_one_warning_is_logged(
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
    (told,) = [
        r.getMessage() for r in caplog.records if r.name == "rstream.transport.local_sockets"
    ]
    assert told.startswith("readers on this machine use TCP, because")


def test_a_path_that_is_too_long_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(deep))
    assert new_socket_path() is None
