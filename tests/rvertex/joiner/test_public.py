"""``ss.id_joiner`` over real logs and three real servers, and its errors.

Not covered: killed processes (``make photon``, tests/rvertex/joiner/day.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import streamscope as ss
from rvertex.errors import OvertakenError
from rvertex.registry.joiner.errors import JoinerInputError, JoinerRowError
from tests.support.nats_servers import nats_servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.nats_servers import NatsServers

pytestmark = pytest.mark.slow
SEARCHES = {"q": pa.int64(), "searched": pa.int64(), "text": pa.string()}
CLICKS = {"click": pa.string(), "q": pa.int64(), "clicked": pa.int64()}
BASE_US = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with nats_servers(tmp_path_factory.mktemp("nats")) as found:
        yield found


def pushed(folder: Path, name: str, *rows: tuple[Any, ...]) -> None:
    columns = SEARCHES if name == "searches" else CLICKS
    with ss.Appender(str(folder / name), columns) as log:
        log.append([dict(zip(columns, row, strict=True)) for row in rows])


def joiner(folder: Path, servers: NatsServers, to: str = "joined", **others: Any) -> Any:
    given = {
        "on": "q",
        "id": "click",
        "at": ("searched", "clicked"),
        "unjoinable_after": 100,
        "retry": 1000,
        "registry": ss.sinks.registry(servers.urls, folder.name, keep="3650d"),
    }
    logs = [str(folder / name) for name in ("searches", "clicks", to)]
    return ss.id_joiner(*logs, **(given | others))


def output(folder: Path, to: str = "joined") -> list[tuple[Any, ...]]:
    reader, found = ss.open_log(str(folder / to)), []
    while (items := reader.read_next()) is not None:
        rows = items.batch.select(["click", "text", "unjoinable"]).to_pylist()
        found += [tuple(row.values()) for row in rows]
    return found


def test_each_click_is_joined_once_also_after_a_restart(
    servers: NatsServers, tmp_path: Path
) -> None:
    t = BASE_US
    pushed(tmp_path, "searches", (1, t, "one"), (None, t, "none"))
    pushed(tmp_path, "clicks", ("a", 1, t), ("a", 1, t), ("b", 2, t), ("c", None, t))
    with joiner(tmp_path, servers) as first:
        first.run(idle_s=0.3)
        assert first.status()["repeated"] == 1
    assert output(tmp_path) == [("a", "one", False)]
    pushed(tmp_path, "searches", (3, t + 500, "late"))
    with joiner(tmp_path, servers) as second:
        second.run(idle_s=0.3)
    alone = [("b", None, True), ("c", None, True)]
    assert output(tmp_path)[1:] == alone
    pushed(tmp_path, "searches", (2, t + 501, "two"))
    with joiner(tmp_path, servers) as third:
        third.run(idle_s=0.5)
    assert output(tmp_path)[3:] == [("b", "two", False)]
    with joiner(tmp_path, servers, to="other") as site:
        site.run(idle_s=0.3)
        assert site.status()["taken"] >= 2
    assert output(tmp_path, "other") == []


def test_a_replaced_joiner_claims_nothing(servers: NatsServers, tmp_path: Path) -> None:
    pushed(tmp_path, "searches", (1, BASE_US, "one"))
    pushed(tmp_path, "clicks", ("a", 1, BASE_US))
    first, second = joiner(tmp_path, servers), joiner(tmp_path, servers)
    with first, second:
        with pytest.raises(OvertakenError):
            first.run(idle_s=0.3)
        second.run(idle_s=0.3)
    assert output(tmp_path) == [("a", "one", False)]


def test_rows_that_cannot_be_claimed(servers: NatsServers, tmp_path: Path) -> None:
    pushed(tmp_path, "searches", (1, BASE_US, "one"))
    pushed(tmp_path, "clicks", ("a", 1, BASE_US), (None, 1, BASE_US), ("d", 1, None))
    with joiner(tmp_path, servers) as found, pytest.raises(JoinerRowError, match="row 1: click"):
        found.run(idle_s=0.3)
    with joiner(tmp_path, servers, on_bad_row="skip") as found:
        found.run(idle_s=0.3)
        assert found.status()["bad"] == 2
    assert output(tmp_path) == [("a", "one", False)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on": "nope"}, "no column 'nope', only q, searched, text"),
        ({"at": ("text", "clicked")}, "text is string; a time is a timestamp"),
    ],
)
def test_wrong_input_of_a_joiner_is_named(
    given: dict[str, Any], message: str, servers: NatsServers, tmp_path: Path
) -> None:
    pushed(tmp_path, "searches", (1, BASE_US, "one"))
    pushed(tmp_path, "clicks", ("a", 1, BASE_US))
    with pytest.raises(JoinerInputError, match=message):
        joiner(tmp_path, servers, **given)
    with pytest.raises(ss.InvalidPlanError, match="share"):
        joiner(tmp_path, servers, share=(2, 2))
