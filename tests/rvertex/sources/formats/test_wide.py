"""The time to inspect files with many columns grows with their number only.

Not covered: the cost of so many columns in a job.
"""

from __future__ import annotations

import time

import pyarrow as pa

from rvertex.sources.formats import rstream
from rvertex.sources.formats.rows import column_names

WIDE = pa.schema([(f"c{k}", pa.int64()) for k in range(20_000)])


def test_columns_are_checked_in_linear_time() -> None:
    began_s = time.process_time()
    column_names.check_has("f", WIDE.names, WIDE.names)
    rstream._check_columns("f", WIDE, WIDE)
    assert time.process_time() - began_s < 2, "their square took 5 s of the one, 100 s of the other"
