"""A live job under random changes, kills of hosts, and ends of its job manager."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from jobmanager.driver.running.changes.pending import pending
from jobmanager.driver.running.deploying import deploy, rescale, roll_back, take_savepoint
from jobmanager.errors import JobRunningError
from jobmanager.storage.root import JobRoot
from planner.physical.layout import Stages
from rstream.errors import StreamEngineError
from tests.support.changed_jobs import ChangedJob, whole_answer
from tests.support.jobs import WAIT_S
from tests.support.trouble import BrittleWiring

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

WIDTHS = (1, 2, 3, 4, 5)
STEPS, HOSTS = 8, 2
#: The share of changes that are disturbed by a kill or an end of the job manager.
SHARE_DISTURBED = 0.5
DELAY_S_MAX = 0.8


class RandomChanges:
    """A job with a destination. ``text``: its query.

    ``other``: the query that ``deploy`` changes it to.
    """

    def __init__(self, folder: Path, text: str, other: str, dice: random.Random) -> None:
        self._changed, self._dice = ChangedJob(folder), dice
        self._folder = str(folder / "delivered")
        #: With deliveries nearly all rollbacks are refused.
        self._delivers = dice.random() < 0.5
        to = f'.deliver(ss.sinks.parquet({self._folder!r}, roll="0s"))' if self._delivers else ""
        self._texts, self._text = (text, other), text
        self._files = {
            one: self._changed.query(f"query{k}", f"{one}{to}")
            for k, one in enumerate((text, other))
        }
        self.done: Counter[str] = Counter()
        #: The steps in order, for the message of a failure.
        self.steps: list[str] = []

    def run(self, steps: int = STEPS) -> None:
        """Start the job, disturb it, end it, and compare all its output."""
        self._changed.append(2)
        self._changed.run(self._files[self._text], hosts=HOSTS)
        for _ in range(steps):
            if self._dice.random() < 0.5:
                self._changed.has_read_all()
            self._step()
            self._changed.append()
        self._wait_changed()
        self._changed.has_read_all()
        rows = self._changed.finish()
        expected = whole_answer(self._changed, self._texts[0])
        names = list(expected[0])
        assert _counted(rows, names) == _counted(expected, names), self.steps
        if not self._delivers:
            return
        found = [pq.read_table(path) for path in Path(self._folder).rglob("*.parquet")]
        delivered = [row for table in found for row in table.to_pylist()]
        assert _counted(delivered, names) == _counted(expected, names), self.steps

    def _step(self) -> None:
        change = self._dice.choice(
            [self._rescale, self._move, self._deploy, self._save, self._undo]
        )
        trouble = self._dice.choice([self._cut, self._cut, self._stop, self._cancel])
        if self._dice.random() >= SHARE_DISTURBED:
            self._note(change())
            return
        thread = threading.Thread(target=lambda: self._note(change()), daemon=True)
        thread.start()
        threading.Event().wait(self._dice.uniform(0, DELAY_S_MAX))
        self._note(trouble())
        self._wait_changed()
        thread.join(WAIT_S)
        assert not thread.is_alive(), self.steps
        self._wait_changed()  # the request may have come after the disturbance

    def _note(self, what: str) -> None:
        self.steps.append(what)
        self.done[what.split()[0].rstrip(":")] += 1

    # ---- changes

    def _rescale(self) -> str:
        width = self._dice.choice(WIDTHS)
        return self._tried(
            f"rescale {width}",
            lambda: rescale(self._changed.root, parallelism=width, wait_s=WAIT_S),
        )

    def _move(self) -> str:
        """Split or join key ranges: of a random vertex, or where the load is greatest or least."""
        verb, root = self._dice.choice(["split", "merge"]), self._changed.root
        plan = JobRoot(root).read_plan()
        assert plan is not None
        where = ["", *(v.id for v in plan.vertices if v.stage in Stages(plan).keys)]
        asked: dict[str, Any] = {verb: self._dice.choice(where), "wait_s": WAIT_S}
        return self._tried(f"{verb} {asked[verb]}", lambda: rescale(root, **asked))

    def _deploy(self) -> str:
        self._text = self._texts[self._text == self._texts[0]]
        path = self._files[self._text]
        return self._tried(
            f"deploy {Path(path).stem}",
            lambda: deploy(path, self._changed.root, yes=True, wait_s=WAIT_S).outcome,
        )

    def _save(self) -> str:
        name = f"s{self._dice.randrange(3)}"
        return self._tried(
            f"savepoint {name}", lambda: take_savepoint(self._changed.root, name, wait_s=WAIT_S)
        )

    def _undo(self) -> str:
        return self._tried("rollback", lambda: roll_back(self._changed.root, wait_s=WAIT_S))

    def _tried(self, what: str, change: Callable[[], dict[str, Any] | None]) -> str:
        try:
            outcome = change()
        except StreamEngineError as error:
            return f"not {what}: {error}"
        return f"{what}: {outcome}"

    # ---- trouble

    def _cut(self) -> str:
        """Disconnect hosts, which the job manager then replaces."""
        hosts = list(BrittleWiring.lines)
        lost = self._dice.sample(hosts, self._dice.randint(1, len(hosts))) if hosts else []
        return f"cut {len(lost)}" if lost and BrittleWiring.cut(lost) else "none"

    def _stop(self) -> str:
        return self._ended("stop")

    def _cancel(self) -> str:
        return self._ended("cancel")

    def _ended(self, how: str) -> str:
        job = self._changed.job
        assert job is not None
        getattr(job, how)()
        state = job.wait(WAIT_S)["state"]
        width = self._dice.choice((None, *WIDTHS)) if how == "stop" else None
        if width is not None:
            try:
                self._resume(parallelism=width)
                return f"{how}: {state}, resumed with {width}"
            except StreamEngineError as error:
                self.steps.append(f"not resumed with {width}: {error}")
        self._resume()
        return f"{how}: {state}"

    def _resume(self, **options: Any) -> None:
        """Resume the job, once no process is changing it."""
        until_s = time.monotonic() + WAIT_S
        while True:  # ends: at until_s
            try:
                self._changed.resume(**options)
                return
            except JobRunningError:
                assert time.monotonic() < until_s, self.steps
                threading.Event().wait(0.05)

    def _wait_changed(self) -> None:
        """Wait until nothing is pending and the job runs."""
        store = JobRoot(self._changed.root).store
        self._changed.watch.until(
            lambda status: (
                pending(store) is None and status["state"] == "running" and bool(status["vertices"])
            )
        )


def _counted(rows: list[dict[str, Any]], names: list[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(str(row[name]) for name in names) for row in rows)
