"""The notes after a scan of a source's times, and whether their advice works."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from jobmanager.driver.notes import NoteWarning

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 1_772_359_200
US = 10**6
UNITS = [("seconds", 1), ("milliseconds", 10**3), ("nanoseconds", 10**9)]


def starts(path: Path, vs: Any, **options: Any) -> list[int]:
    stream = ss.Stream.from_csv(str(path), vs=vs, **options)
    found: list[int] = ss.collect(stream, executor="local")["_vs"].to_pylist()
    return found


def written(folder: Path, times: list[int]) -> Path:
    path = folder / "e.csv"
    path.write_text("time\n" + "".join(f"{t}\n" for t in times))
    return path


@pytest.mark.parametrize(("unit", "per_second"), UNITS)
def test_times_in_another_unit_are_reported_with_a_conversion(
    tmp_path: Path, unit: str, per_second: int
) -> None:
    path = written(tmp_path, [SECONDS * per_second, (SECONDS + 7) * per_second])
    with pytest.warns(NoteWarning, match=f"these look like {unit}: ") as told:
        assert starts(path, "time") == [SECONDS * per_second, (SECONDS + 7) * per_second]
    advice = re.search(r"vs=(.*) converts them", str(told[0].message))
    assert advice is not None
    assert starts(path, eval(advice[1], {"ss": ss})) == [SECONDS * US, (SECONDS + 7) * US]


@pytest.mark.parametrize(
    "times",
    [[SECONDS * US], [0, 17], [0, SECONDS], [SECONDS, SECONDS * US], []],
    ids=["microseconds", "small", "from 1970 on", "two units", "none"],
)
def test_plausible_times_are_not_reported(tmp_path: Path, times: list[int]) -> None:
    path = written(tmp_path, times)
    assert starts(path, "time", schema={"time": "int64"}) == times  # warnings are errors
