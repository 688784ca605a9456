"""Words of any text files, counted: ``python examples/wordcount.py [FILE_OR_FOLDER]``.

Line n of the text starts at n microseconds, so one window of a day holds any text at hand. With
``jobmanager run examples/wordcount.py`` it counts the words of this project's licence.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads

import jobmanager
from jobmanager.cli.view import ProgressView
from planner import Query, Stream, agg, col, tumbling
from planner.explain.text import explain
from rstream.errors import StreamEngineError

TEXT = Path(__file__).parent.parent / "LICENSE"


def query() -> Query:
    """The query over a text that is always there."""
    return word_count(TEXT)


def word_count(path: Path) -> Query:
    """Lower-case words, separated by whatever is neither letter nor digit."""
    return (
        Stream.from_text(str(path))
        .select(
            word=col("line").str.lower().str.replace(r"[^\pL\pN]+", " ", regex=True).str.split()
        )
        .explode("word")
        .filter(col("word") != "")
        .group_by("word")
        .window(tumbling("1d"))
        .agg(n=agg.count())
        .to_parquet()
    )


def most(output: str, rows: int) -> pa.Table:
    """The most frequent words."""
    table = pads.dataset(output).to_table()
    order = [("n", "descending"), ("word", "ascending")]
    return table.select(["word", "n"]).sort_by(order).slice(0, rows)


def main() -> None:
    """Run the query, show how it goes and what came out."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("text", nargs="?", type=Path, default=TEXT, help="file or folder")
    parser.add_argument("--root", help="folder of the job; a new one if not given")
    parser.add_argument("--paced", type=float, help="replay this many times faster than real time")
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--master", help="Spark master")
    args = parser.parse_args()
    view = ProgressView()
    try:
        job = jobmanager.run(
            word_count(args.text),
            root=args.root,
            executor=args.executor,
            master=args.master,
            paced=args.paced,
            on_status=view.show,
        )
        print(explain(job.plan))
        with view:
            job.wait()
    except StreamEngineError as error:
        raise SystemExit(f"{Path(__file__).name}: {error}") from None
    print("\nThe twenty most frequent words:\n")
    print(most(job.output, 20).to_pandas().to_string(index=False))
    print(f"\nAll of it is in {job.output}")


if __name__ == "__main__":
    main()
