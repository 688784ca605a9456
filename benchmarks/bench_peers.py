"""Installs the peers of ``bench_nexmark.py``, each into a separate environment below ``.venvs``.

Existing environments stay. If one cannot be installed, pip's last line is printed, and the others
are installed.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

VENVS = Path(__file__).parent.parent / ".venvs"
#: Environment -> packages to install (tested with Python 3.11).
PEERS = {
    "flink": ["apache-flink==2.3.0"],
    "bytewax": ["bytewax[kafka]==0.21.1", "orjson", "pyarrow", "numpy"],
    "pathway": ["pathway==0.33.0", "pyarrow", "numpy"],
    "quix": ["quixstreams==3.28.1", "orjson"],
}
#: Folder -> a package of which only files are used: Flink's connector for Kafka.
FILES = {"flink-kafka": "shigawire-apache-flink-libraries==2.0.0.post1"}
INSTALL_WAIT_S = 1_200


def install(name: str, packages: list[str]) -> str:
    """Create the environment if it does not exist; return the error, or an empty text."""
    folder = VENVS / name
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text() == repr(packages):
        return ""
    venv.create(folder, with_pip=True, clear=True)
    return _pip(folder, folder / "bin" / "python", packages, repr(packages))


def unpack(name: str, package: str) -> str:
    """Put a package's files into a folder, without its dependencies; return the error."""
    folder = VENVS / name
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text() == package:
        return ""
    return _pip(
        folder, Path(sys.executable), ["--no-deps", "--target", str(folder), package], package
    )


def _pip(folder: Path, python: Path, arguments: list[str], stamp: str) -> str:
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-input",
         "--disable-pip-version-check", *arguments],
        capture_output=True, text=True, check=False, timeout=INSTALL_WAIT_S,
    )  # fmt: skip
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2] or f"pip ended with {done.returncode}"
    (folder / ".installed").write_text(stamp)
    return ""


def main() -> int:
    """Install all peers; return the number of failures."""
    failed = 0
    for name, packages in PEERS.items():
        failed += _told(name, install(name, packages))
    for name, package in FILES.items():
        failed += _told(name, unpack(name, package))
    return failed


def _told(name: str, problem: str) -> bool:
    print(f"{name}: {problem or 'installed'}", flush=True)
    return bool(problem)


if __name__ == "__main__":
    sys.exit(main())
