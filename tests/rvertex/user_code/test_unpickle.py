"""Plans with modules that a worker cannot import: the error names them, and no host retries.

Not covered: Spark's own changes to the path of its workers (tests/spark).
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from rvertex.host.environment import HostLimits
from rvertex.host.host import HostSpec
from rvertex.host.spark import SparkHostBody
from rvertex.user_code.errors import UnknownCodeError
from rvertex.user_code.unpickle import UNLOADABLE, load_shipped

if TYPE_CHECKING:
    from pathlib import Path


def shipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A class of a module that the driver can import and the worker cannot."""
    (folder / "my_processes.py").write_text("class Sessions:\n    pass\n")
    with monkeypatch.context() as driver:
        driver.syspath_prepend(folder)
        import my_processes  # type: ignore[import-not-found]

        data = cloudpickle.dumps({"s01.0": my_processes.Sessions})
    monkeypatch.delitem(sys.modules, "my_processes")
    return bytes(data)


def body(data: bytes) -> SparkHostBody:
    """Return the code that Spark runs for a host whose plan is ``data``."""
    spec = HostSpec("h0.0", "job", "root", "nowhere", "secret", HostLimits())
    return SparkHostBody(spec, data)


def test_known_classes_are_unpickled() -> None:
    def local(x: int) -> int:
        return x + 1

    again: Any = load_shipped(cloudpickle.dumps({"f": local, "c": pickle.Pickler}), to_run=True)
    assert (again["f"](1), again["c"]) == (2, pickle.Pickler)


def test_a_class_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shipped(tmp_path, monkeypatch)
    with pytest.raises(UnknownCodeError, match=r"my_processes\.Sessions cannot be imported on "):
        load_shipped(data, to_run=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_processes.py").write_text("raise ValueError('needs a licence')")
    with pytest.raises(UnknownCodeError, match=r"needs a licence.*, define it in the query file"):
        load_shipped(data, to_run=False)


def test_a_worker_reports_the_error_and_exits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shipped(tmp_path, monkeypatch)
    (how,) = body(data)([0])
    assert how.startswith(f"{UNLOADABLE}my_processes.Sessions cannot be imported")
