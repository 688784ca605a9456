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


VERBS: dict[str, tuple[int, Callable[[Scene, random.Random], Outcome]]] = {
    "rescaled": (4, rescale_job),
    "deployed": (3, deploy_query),
    "saved": (1, save_job),
    "changed and undone": (3, undo_at_once),
}


def changed(
    kinds: dict[str, tuple[int, Fault]], change: Callable[[Scene, random.Random], Outcome]
) -> Fault:
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
    change: Callable[[Scene, random.Random], Outcome],
    fault: Fault | None,
) -> str:
    """Change the job; ``fault``: a fault during the change.

    Raises:
        WrongError: the change has no outcome, or a wrong one.
    """
    scene.wait_whole()
    found: list[str] = []

    def body() -> None:
        begun_s = time.monotonic()
        try:
            state = str(change(scene, dice_of_change)["state"])
        except ChangeWaitsError as error:
            state = f"waits: {error}"
        except StreamEngineError as error:
            state = f"{type(error).__name__}: {error}"
        except Exception as error:
            state = f"bug: {error!r}"
        found.append(f"{state} in {time.monotonic() - begun_s:.1f} s")

    dice_of_change = type(dice)(dice.random())
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    shown = "quiet"
    if fault is not None:
        time.sleep(dice.uniform(0.0, CHANGE_S_MAX))
        shown = fault(scene, dice)
    thread.join(2 * RECOVERY_S_MAX)
    if not found or found[0].startswith("bug"):
        raise WrongError(f"{change.__name__}: {found or 'no outcome'}; {shown}; {scene.status}")
    scene.changes.append(f"{change.__name__}: {found[0].split(':')[0].split(' in ')[0]}")
    scene.rescales += change in (rescale_job, undo_at_once)
    return f"{change.__name__}: {found[0]}; {shown}"


def with_changes(kinds: dict[str, tuple[int, Fault]]) -> dict[str, tuple[int, Fault]]:
    """Add changes to the kinds of strikes, so that they are about two thirds of all."""
    total, weights = sum(w for w, _ in kinds.values()), sum(w for w, _ in VERBS.values())
    amid = {k: v for k, v in kinds.items() if v[1] is not faults.add_partition}
    found = dict(kinds)
    for name, (weight, verb) in VERBS.items():
        found[name] = (2 * total * weight // weights, changed(amid, verb))
    return found
