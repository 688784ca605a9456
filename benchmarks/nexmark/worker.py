"""A process that runs one system: it reads orders and writes results, as lines of JSON.

``python worker.py SYSTEM FOLDER`` prints ``{"startup_s": ...}`` when it is ready. An order is
``{"query": ..., "out": ..., "variant": {...}}``; the result ``{"elapsed_s": ...}`` or ``{"error":
...}``. It ends when its input is closed. Peers run it in their own environments.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Execute orders until the input ends."""
    name, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output that a system prints must not mix with results
    sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
    started_s = time.perf_counter()
    system = importlib.import_module(f"nexmark.systems.{name}").System(Path(folder))
    ready = {"names": list(system.NAMES), "variants": list(system.VARIANTS)}
    print(json.dumps({"startup_s": time.perf_counter() - started_s, **ready}),
          file=answers, flush=True)  # fmt: skip
    for line in sys.stdin:
        order = json.loads(line)
        try:
            elapsed_s = system.run(order["query"], Path(order["out"]), order["variant"])
            result: dict[str, object] = {"elapsed_s": elapsed_s}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:2_000]}
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
