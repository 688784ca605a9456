"""Checks the result and the side outputs of a job in the store."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from jobmanager.errors import DamagedOutputError, NotFinishedError
from jobmanager.state.messages import OutputDamaged
from jobmanager.storage.root import display_uri
from rstream import StreamDigest, open_reader
from rstream.items.batch import only_events
from rstream.log.damage import find_damage
from rstream.log.durable import DurableLog
from rstream.store.blobs import open_store
from rstream.store.seals import sealed_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rstream.log.damage import Damage

#: The file that marks an output as complete; see :mod:`jobmanager.storage.output_claim`.
SUCCESS = "_SUCCESS"


def verify_output(root: JobRoot) -> dict[str, Any]:
    """Read the whole output of a finished job. Return its files, its events, and their digest.

    Raises:
        NotFinishedError: the job has not finished.
        DamagedOutputError: a file is missing or damaged, or the digest is not the job's.
    """
    root.check_trusted()
    root.readable_settings()
    status, plan = root.read_status(), root.read_plan()
    if plan is None or status.get("state") != "finished":
        raise NotFinishedError(display_uri(root.uri), status.get("state", "unknown"))
    here, check = display_uri(root.uri), OutputCheck(plan)
    damages = [str(damage) for _, damage in check.find({}, contents=True)]
    if damages:
        raise DamagedOutputError(here, "; ".join(damages))
    files, events, digest = check.read_all()
    if digest != status["output_digest"]:
        reason = f"its digest is {digest}, the job wrote {status['output_digest']}"
        raise DamagedOutputError(here, reason)
    return {"job": root.name, "files": files, "events": events, "output_digest": digest}


class OutputCheck:
    """Checks the outputs of one plan."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._outputs = [output.output for output in plan.of_outputs]
        sides = [pair for pairs in plan.side_streams().values() for pair in pairs]
        self._uris = dict([*plan.sink_streams(), *sides])
        #: Streams that end with a seal (an end mark). A complete one must have it. Side outputs
        #: have none.
        self._sealed = [uri for _, uri in plan.sink_streams()]

    def __call__(
        self, ends: Mapping[str, int | None], *, contents: bool
    ) -> Sequence[OutputDamaged]:
        """Implement :class:`jobmanager.driver.shell_parts.CheckOutputs`."""
        damages = self.find(ends, contents=contents, set_aside=True)
        if damages:  # remove ``_SUCCESS`` at once, because it is wrong now
            for output in self._outputs:
                open_store(output).delete(SUCCESS)
        return [OutputDamaged(stream, d.seqs.lo, str(d)) for stream, d in damages]

    def read_all(self) -> tuple[int, int, str]:
        """Return the number of files and of events of the result, and its digest as in a status.

        Items that retention has deleted are included in the digest only.
        """
        files = events = 0
        total = hashlib.blake2b(digest_size=16)
        for uri in self._sealed:
            store = open_store(uri)
            first_seq, past = DurableLog(store, uri).beginning
            digest = StreamDigest.from_bytes(past) if past else StreamDigest()
            files += len(sealed_names(store) or ())
            reader = open_reader(store, first_seq)
            while (items := reader.read_next()) is not None:
                digest.update(items.first_seq, items.batch)
                events += only_events(items.batch).num_rows
            reader.close()
            total.update(digest.to_bytes())
        return files, events, total.hexdigest()

    def is_intact(self) -> bool:
        """Return whether all files of a complete output are still there and unchanged."""
        is_sealed = all(sealed_names(open_store(uri)) is not None for uri in self._sealed)
        return is_sealed and not self.find({}, contents=True)

    def find(
        self, ends: Mapping[str, int | None], *, contents: bool, set_aside: bool = False
    ) -> list[tuple[str, Damage]]:
        """Return the first damage of each stream. ``contents``: compare digests too."""
        damages = []
        for stream, uri in self._uris.items():
            store, end = open_store(uri), ends.get(stream)
            lost = find_damage(store, stream, end, contents=contents, set_aside=set_aside)
            damages += [(stream, damage) for damage in lost[:1]]
        return damages
