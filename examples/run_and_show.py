"""Runs the query of an example and shows its result, for ``python examples/NAME.py``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import streamscope as ss
from jobmanager.cli.view import ProgressView

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


def options() -> argparse.ArgumentParser:
    """Return the options that all examples have."""
    parser = argparse.ArgumentParser(description="Run the query, show its progress and its answer.")
    parser.add_argument("--root", help="folder of the job; a new one if not given")
    parser.add_argument("--paced", type=float, help="replay this many times faster than real time")
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--master", help="Spark master")
    return parser


def options_with_inputs(inputs: Callable[[], Path]) -> argparse.Namespace:
    """Return the options of an example with its own data.

    ``--inputs`` prints its folder and ends.
    """
    parser = options()
    parser.add_argument("--inputs", action="store_true", help="only print the folder of the data")
    args = parser.parse_args()
    if args.inputs:
        print(inputs())
        raise SystemExit
    return args


def run_and_show(
    query: Callable[[], ss.Query],
    args: argparse.Namespace,
    title: str,
    rows_of: Callable[[str], pa.Table],
) -> None:
    """Run the query, then print ``title`` and the rows that ``rows_of`` selects from its output."""
    view = ProgressView()
    try:
        job = ss.run(
            query(),
            root=args.root,
            executor=args.executor,
            master=args.master,
            paced=args.paced,
            on_status=view.show,
        )
        print(ss.explain(job.plan))
        with view:
            job.wait()
    except ss.StreamEngineError as error:
        raise SystemExit(f"{Path(sys.argv[0]).name}: {error}") from None
    print(f"\n{title}:\n")
    print(rows_of(job.output).to_pandas().to_string(index=False))
    print(f"\nAll of it is in {job.output}")
