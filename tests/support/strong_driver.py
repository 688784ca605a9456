"""A job manager in a separate process, to be killed: prints the rows that a subscriber gets."""

from __future__ import annotations

import json
import sys

import jobmanager
from tests.jobmanager import test_strong
from tests.support.jobs import ROWS
from tests.support.trouble import Gate


def main(query: str, events: str, root: str) -> None:
    """Run the query with that name in ``test_strong``; it waits before its end."""
    gate = Gate()
    gate.close_at(ROWS // 2)
    gate.stand()
    job = jobmanager.run(
        getattr(test_strong, query)(events),
        root=root,
        executor="local",
        hosts=2,
        paced=10.0,
        config=test_strong.CONFIG,
    )
    for batch in job.subscribe():
        for row in batch.to_pylist():
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
