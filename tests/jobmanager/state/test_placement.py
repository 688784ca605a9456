"""Spare hosts: lost vertices go to an idle host at once, and replicas run on different hosts.

Not covered: whether an idle host is faster than a new one (``make bench-recovery``).
"""

from __future__ import annotations

from hypothesis import given, strategies as st

from rvertex.vertex.spec import Recovery
from tests.support.scene import Scene, started
from tests.support.shapes import chain

VERTICES = ("a", "b", "c")


def host_of(scene: Scene, vertex: str) -> list[str]:
    return [host for _, host in scene.instances(vertex)]


def test_lost_vertices_move_to_the_idle_host() -> None:
    scene = Scene(hosts=4)
    scene.start_all()
    out = scene.lose("h1.0")
    assert ("b", "") in started(out)
    assert host_of(scene, "b") == ["h3.0"]
    scene.ready("h1.1")
    assert host_of(scene, "b") == ["h3.0"], "what has moved stays"
    scene.lose("h3.0")
    assert host_of(scene, "b") == ["h1.1"], "the new host was idle"


def test_without_an_idle_host_they_wait_for_the_new_one() -> None:
    scene = Scene(hosts=3)
    scene.start_all()
    scene.lose("h1.0")
    assert host_of(scene, "b") == ["h1.1"]


def test_all_vertices_of_a_lost_host_move_to_one_other_host() -> None:
    scene = Scene(hosts=2)
    scene.start_all()
    assert [host_of(scene, v) for v in VERTICES] == [["h0.0"], ["h1.0"], ["h0.0"]]
    scene.finish("b", 0, 0)
    scene.lose("h0.0")
    assert host_of(scene, "a") == host_of(scene, "c") == ["h1.0"]


@given(
    hosts=st.integers(2, 6),
    replicas=st.integers(1, 3),
    losses=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=8),
)
def test_replicas_are_never_on_one_host(
    hosts: int, replicas: int, losses: list[tuple[int, bool]]
) -> None:
    replicas = min(replicas, hosts)
    recovery = Recovery("replication" if replicas > 1 else "checkpoint", replicas)
    scene = Scene(chain(**dict.fromkeys(VERTICES, recovery)), hosts=hosts, host_restarts_max=100)
    scene.start_all()
    for number, comes_back in losses:
        host = scene.manager.hosts[number % hosts]
        if host.state == "ready":
            scene.lose(host.name)
        if comes_back:
            for waiting in [h.name for h in scene.manager.hosts if h.state == "starting"]:
                scene.ready(waiting)
        for vertex in VERTICES:
            slots = [i.slot for i in scene.manager.vertices[vertex].instances]
            assert len(slots) == len(set(slots)), slots
