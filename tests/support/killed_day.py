"""Runs one day of a continued job, in a process that kills itself after a number of rows."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import jobmanager
from rvertex.vertex.log_input import LogInput
from tests.support.jobs import WAIT_S, with_limits

if TYPE_CHECKING:
    from rstream.items.batch import Items
    from rvertex.sources.logs.protocol import LogRows

#: Small steps, and frequent checkpoints.
CONFIG = with_limits(checkpoint_interval_s=0.02, step_rows_max=50, lease_s=0.5)


def die_after(rows: int) -> None:
    """SIGKILL this process when its source has read this number of rows."""
    offer, taken = LogInput.offer, 0

    def counted(self: LogInput, channel: int, items: Items | LogRows) -> None:
        nonlocal taken
        offer(self, channel, items)
        taken += items.batch.num_rows
        if taken >= rows:
            os.kill(os.getpid(), signal.SIGKILL)

    LogInput.offer = counted  # type: ignore[method-assign]


def main(root: str, rows: str) -> None:
    """Continue the job at ``root``, and die."""
    die_after(int(rows))
    jobmanager.run(root=root, continue_=True, config=CONFIG).wait(WAIT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
