"""Checkpoint files that dead hosts leave behind, and when a driver deletes them.

Not covered: deleting a file that is still needed (tests/sim, test_crash_in_checkpoints.py).
"""

from __future__ import annotations

from jobmanager.driver.root_keeper import LEFTOVERS_WAIT_S, left_behind
from jobmanager.state.messages import DeleteLeftovers
from rstream import MemoryBlobs, StoreError
from rvertex.messages import NOTICE_CODEC, VertexFailed
from tests.jobmanager.driver.test_driver import Scene


def test_unannounced_files_of_a_dead_host_are_deleted_after_a_while() -> None:
    """Files with the store's own names and of later instances stay.

    Failed deletions are retried.
    """

    class Fragile(MemoryBlobs):
        failures = 2
        deletions = 2

        def delete(self, path: str) -> None:
            if path in dead and self.deletions:
                self.deletions -= 1
                raise StoreError(path, "busy")
            super().delete(path)

        def list(self, folder: str = "") -> list[str]:
            if folder == "checkpoints" and self.failures:
                self.failures -= 1
                raise StoreError(folder, "busy")
            return super().list(folder)

    store, dead = Fragile(), list[str]()
    scene = Scene(store)
    epochs = {v.shape.id: v.instances[0].epoch for v in scene.manager.vertices.values()}
    dead += [
        f"checkpoints/b/{epochs['b']:08d}-000001.ckpt",
        f"checkpoints/b/parts/{epochs['b']:08d}-000001-ab",
        f"checkpoints/b/.{epochs['b']:08d}-000002.ckpt.7.7.tmp",
    ]
    later = [f"checkpoints/b/{99:08d}-000001.ckpt", "checkpoints/b/README", "checkpoints/d/1-1"]
    for path in (*dead, *later):
        store.put(path, b"state")
    failed = VertexFailed("b", epochs["b"], "store", "away", "")
    scene.lines[0].on_message("h0.0#0", NOTICE_CODEC.encode(failed))
    scene.pass_time(1.0)
    while_s = 1.0
    while store.deletions == 2 and while_s < 100:
        assert all(map(store.exists, (*dead, *later)))
        scene.hear_host()
        scene.pass_time(1.0)
        while_s += 1.0
    assert while_s >= LEFTOVERS_WAIT_S
    while store.exists(dead[0]) and while_s < 100:
        scene.hear_host()
        scene.pass_time(1.0)
        while_s += 1.0
    assert store.failures == store.deletions == 0
    assert not any(map(store.exists, dead))
    assert all(map(store.exists, later))


def test_leftovers_belong_to_dead_epochs_and_are_not_needed() -> None:
    """Leftovers are files of dead epochs of the requested vertices that no checkpoint needs."""
    store = MemoryBlobs()
    stored = {
        (vertex, epoch): [
            f"checkpoints/{vertex}/{epoch:08d}-000001.ckpt",
            f"checkpoints/{vertex}/parts/{epoch:08d}-000001-ab",
            f"checkpoints/{vertex}/.{epoch:08d}-000002.ckpt.7.7.tmp",
        ]
        for vertex in ("a", "b")
        for epoch in (1, 2, 3, 4, 5)
    }
    for path in (path for paths in stored.values() for path in paths):
        store.put(path, b"state")
    needed = stored["a", 1][:2]
    told = {"a": DeleteLeftovers("a", before=4, present=(2,), needed=tuple(needed))}
    assert set(left_behind(store, told)) == {stored["a", 1][2], *stored["a", 3]}
    assert left_behind(store, {}) == []
