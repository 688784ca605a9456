"""Counts the words of any text files: ``python examples/wordcount.py [FILE_OR_FOLDER]``.

Line n of the text starts at n microseconds, so one window of a day contains any text of usual size.
With ``jobmanager run examples/wordcount.py`` it counts the words of this project's licence.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads

import streamscope as ss

TEXT = Path(__file__).parent.parent / "LICENSE"


def query() -> ss.Query:
    """Return the query over a text that always exists."""
    return word_count(TEXT)


def word_count(path: Path) -> ss.Query:
    """Count lower-case words, which are separated by characters that are no letters or digits."""
    return (
        ss.Stream.from_text(str(path))
        .select(
            word=ss.col("line").str.lower().str.replace(r"[^\pL\pN]+", " ", regex=True).str.split()
        )
        .explode("word")
        .filter(ss.col("word") != "")
        .group_by("word")
        .window(ss.tumbling("1d"))
        .agg(n=ss.agg.count())
        .to_parquet()
    )


def most(output: str, rows: int) -> pa.Table:
    """Return the most frequent words."""
    table = pads.dataset(output).to_table()
    order = [("n", "descending"), ("word", "ascending")]
    return table.select(["word", "n"]).sort_by(order).slice(0, rows)


if __name__ == "__main__":
    from run_and_show import options, run_and_show

    parser = options()
    parser.add_argument("text", nargs="?", type=Path, default=TEXT, help="file or folder")
    args = parser.parse_args()
    run_and_show(
        lambda: word_count(args.text),
        args,
        "The twenty most frequent words",
        lambda output: most(output, 20),
    )
