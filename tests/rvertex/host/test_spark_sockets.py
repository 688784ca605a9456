"""Whether Spark and its Python workers may use Unix sockets; starts no Spark.

Not covered: whether Spark accepts the settings (tests/spark).
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rvertex.host.spark.connections import local_sockets

if TYPE_CHECKING:
    from collections.abc import Iterator

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short name for temporary files."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("PYSPARK_UDS_MODE", raising=False)
    yield folder
    shutil.rmtree(folder)


def test_a_local_master_has_sockets_in_its_own_folder(temporary: Path) -> None:
    settings = local_sockets("local[2]")
    assert settings == {ENABLED: "true", FOLDER: settings[FOLDER]}
    folder = Path(settings[FOLDER])
    assert folder.parent == temporary
    assert list(folder.iterdir()) == []
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.join(folder, f".{'0' * 36}.sock"))


@pytest.mark.parametrize(("name", "fits"), [("x" * 12, True), ("é" * 12, False), ("x" * 80, False)])
def test_if_the_path_is_too_long_tcp_is_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, name: str, fits: bool
) -> None:
    """The limit counts bytes, not characters."""
    deep = temporary / name
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert bool(local_sockets("local[2]")) == fits
    assert len(list(deep.iterdir())) == int(fits)


def test_without_a_temporary_folder_tcp_is_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    assert local_sockets("local") == {}


def test_if_sockets_are_disabled_tcp_is_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local_sockets("spark://host:7077") == {}
    assert local_sockets("local-cluster[2,1,512]") == {}
    monkeypatch.setenv("PYSPARK_UDS_MODE", "false")
    assert local_sockets("local[2]") == {}
    assert list(temporary.iterdir()) == []
