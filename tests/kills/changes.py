"""Changes of a job, each of which may meet a fault: rescale, deploy, savepoint, rollback."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobmanager.driver.running.changes.errors import ChangeWaitsError
from jobmanager.driver.running.changes.scaling.widths import RescaleError
from jobmanager.driver.running.deploying import deploy, rescale, roll_back, take_savepoint
from rstream.errors import StreamEngineError
from rvertex.checkpoint.ranges.slots import NotByKeyError
from tests.kills import faults
from tests.kills.scene import RECOVERY_S_MAX, Scene, WrongError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.kills.queries import JobSpec

    Fault = Callable[[Scene, random.Random], str]
    Outcome = dict[str, Any]
    Change = Callable[[Scene, random.Random], Outcome]

#: Numbers of vertices that a change chooses from; a fault within it comes this late at most.
WIDTHS, CHANGE_S_MAX = (1, 2, 3, 8), 3.0
SAVEPOINTS = 2
_QUERY_FILE = """from tests.kills.queries import JobSpec
query = JobSpec(**{spec!r}).live(more={more})
"""


def rescale_job(scene: Scene, dice: random.Random) -> Outcome:
    """Change the number of vertices of stages with rows by key; else deploy the query."""
    try:
        return rescale(scene.spec.root, parallelism=dice.choice(WIDTHS), wait_s=RECOVERY_S_MAX)
    except (NotByKeyError, RescaleError):
        return deploy_query(scene, dice)


def move_ranges(scene: Scene, dice: random.Random) -> Outcome:
    """Split the range with the most rows, or join the two with the fewest; else deploy."""
    try:
        return rescale(
            scene.spec.root, **{dice.choice(("split", "merge")): ""}, wait_s=RECOVERY_S_MAX
        )
    except (NotByKeyError, RescaleError):
        return deploy_query(scene, dice)


def deploy_query(scene: Scene, _: random.Random) -> Outcome:
    """Add a column or an aggregate to the query; once it has it, keep the query."""
    path = write_query(scene.spec, scene.folder, more=True)
    outcome = deploy(str(path), scene.spec.root, yes=True, wait_s=RECOVERY_S_MAX).outcome
    assert outcome is not None
    return outcome


def save_job(scene: Scene, dice: random.Random) -> Outcome:
    """Take a savepoint, which a later one replaces."""
    name = f"s{dice.randrange(SAVEPOINTS)}"
    return take_savepoint(scene.spec.root, name, wait_s=RECOVERY_S_MAX)


def roll_job_back(scene: Scene, _: random.Random) -> Outcome:
    """Roll back the last change; an error if rows were delivered since."""
    return roll_back(scene.spec.root, wait_s=RECOVERY_S_MAX)


def undo_at_once(scene: Scene, dice: random.Random) -> Outcome:
    """Roll back a change before many rows can have been delivered."""
    (rescale_job if dice.random() < 0.5 else deploy_query)(scene, dice)
    return roll_job_back(scene, dice)


def write_query(spec: JobSpec, folder: Path, *, more: bool) -> Path:
    """Write the file of the job's query, or of the one with another column."""
    path = folder / f"query{more:d}.py"
    path.write_text(_QUERY_FILE.format(spec=json.loads(json.dumps(asdict(spec))), more=more))
    return path


VERBS: dict[str, tuple[int, Change]] = {
    "rescaled": (3, rescale_job),
    "split or joined": (1, move_ranges),
    "deployed": (3, deploy_query),
    "saved": (1, save_job),
    "changed and undone": (3, undo_at_once),
}


def changed(kinds: dict[str, tuple[int, Fault]], change: Change) -> Fault:
    """Return a strike that changes a job, usually during another strike.

    ``kinds``: strikes to choose from, with their weights.
    """
    weights = [weight for weight, _ in kinds.values()]
    quiet = sum(weights) // 4

    def strike(scene: Scene, dice: random.Random) -> str:
        name = dice.choices([*kinds, ""], [*weights, quiet])[0]
        return _change(scene, dice, change, kinds[name][1] if name else None)

    return strike


def _change(
    scene: Scene,
    dice: random.Random,
    change: Change,
    fault: Fault | None,
) -> str:
    """Change the job; ``fault``: a fault during the change.

    Raises:
        WrongError: the change has no outcome, or a wrong one.
    """
    scene.wait_whole()
    asked = Asked(scene, dice, change)
    shown = "quiet"
    if fault is not None:
        time.sleep(dice.uniform(0.0, CHANGE_S_MAX))
        shown = fault(scene, dice)
    return f"{asked.outcome()}; {shown}"


class Asked:
    """A change that is requested in a separate thread."""

    def __init__(self, scene: Scene, dice: random.Random, change: Change) -> None:
        self._scene, self._change = scene, change
        self._dice = type(dice)(dice.random())
        self._found = ""
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def outcome(self) -> str:
        """Wait for the outcome, and note it.

        Raises:
            WrongError: there is none, or a wrong one.
        """
        self._thread.join(2 * RECOVERY_S_MAX)
        scene, found, name = self._scene, self._found, self._change.__name__
        if not found or found.startswith("bug"):
            raise WrongError(f"{name}: {found or 'no outcome'}; {scene.status}")
        scene.changes.append(f"{name}: {found.split(':')[0].split(' in ')[0]}")
        scene.rescales += self._change in (rescale_job, move_ranges, undo_at_once)
        return f"{name}: {found}"

    def _ask(self) -> None:
        begun_s = time.monotonic()
        try:
            state = str(self._change(self._scene, self._dice)["state"])
        except ChangeWaitsError as error:
            state = f"waits: {error}"
        except StreamEngineError as error:
            state = f"{type(error).__name__}: {error}"
        except Exception as error:
            state = f"bug: {error!r}"
        self._found = f"{state} in {time.monotonic() - begun_s:.1f} s"


def with_changes(kinds: dict[str, tuple[int, Fault]]) -> dict[str, tuple[int, Fault]]:
    """Add changes to the kinds of strikes, so that they are about two thirds of all."""
    total, weights = sum(w for w, _ in kinds.values()), sum(w for w, _ in VERBS.values())
    amid = {k: v for k, v in kinds.items() if v[1] is not faults.add_partition}
    found = dict(kinds)
    for name, (weight, verb) in VERBS.items():
        found[name] = (2 * total * weight // weights, changed(amid, verb))
    return found


def only_rescaled(kinds: dict[str, tuple[int, Fault]]) -> dict[str, tuple[int, Fault]]:
    """Return rescales and moves of ranges, usually during a strike."""
    amid = {k: v for k, v in kinds.items() if v[1] is not faults.add_partition}
    return {
        "rescaled": (3, changed(amid, rescale_job)),
        "split or joined": (2, changed(amid, move_ranges)),
    }
