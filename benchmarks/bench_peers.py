"""Installs the peers of ``bench_nexmark.py``, each into an environment of its own below ``.venvs``.

What is there stays; what cannot be installed is told with pip's last line, and the others go on.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

VENVS = Path(__file__).parent.parent / ".venvs"
#: Environment -> what is installed (tried with Python 3.11).
PEERS = {
    "flink": ["apache-flink==2.3.0"],
    "bytewax": ["bytewax==0.21.1", "pyarrow", "numpy"],
    "pathway": ["pathway==0.33.0", "pyarrow", "numpy"],
}
INSTALL_WAIT_S = 1_200


def install(name: str, packages: list[str]) -> str:
    """Make the environment if it is not there; what went wrong, or nothing."""
    folder = VENVS / name
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text() == repr(packages):
        return ""
    venv.create(folder, with_pip=True, clear=True)
    done = subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-input",
         "--disable-pip-version-check", *packages],
        capture_output=True, text=True, check=False, timeout=INSTALL_WAIT_S,
    )  # fmt: skip
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2] or f"pip ended with {done.returncode}"
    stamp.write_text(repr(packages))
    return ""


def main() -> int:
    """Install all; the number of those that could not be."""
    failed = 0
    for name, packages in PEERS.items():
        problem = install(name, packages)
        print(f"{name}: {problem or 'installed'}", flush=True)
        failed += bool(problem)
    return failed


if __name__ == "__main__":
    sys.exit(main())
