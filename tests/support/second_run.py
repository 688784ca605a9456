"""Run pytest, and what failed once more: ``python -m tests.support.second_run OPTIONS``.

Tests start threads, hosts and brokers, several at a time on few cores. A test that fails beside
others may depend on the speed of the machine only. So up to :data:`AGAIN_MAX` failed tests
run again, one after another. Those that pass then do not fail the run, but the last lines name
them. Each of them is a defect, of the test or of the product.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Most failed tests that run again; more are no coincidence.
AGAIN_MAX = 3


class Failures:
    """A plugin of pytest that notes which tests fail, and whether a process with tests ended."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.has_lost_process = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.tests:
            self.tests.append(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        self.has_lost_process |= error is not None


def main(options: list[str]) -> int:
    """Run the tests that ``options`` of pytest select. Return the exit status of pytest."""
    failures = Failures()
    status = int(pytest.main(options, [failures]))
    if status != pytest.ExitCode.TESTS_FAILED or failures.has_lost_process:
        return status or int(failures.has_lost_process)
    if not 0 < len(failures.tests) <= AGAIN_MAX:
        return status
    alone = [sys.executable, "-m", "pytest", *options, "-n", "0", *failures.tests]
    status = subprocess.run(alone, check=False).returncode
    if not status:
        print("Passed only alone, in a second run. Find out why:", *failures.tests, sep="\n  ")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
