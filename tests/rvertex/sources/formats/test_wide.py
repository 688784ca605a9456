"""Files with many columns are looked at in a time that grows with their number.

Cannot catch: what a job does with so many columns later.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from rvertex.sources.formats import parquet, rstream

WIDE = pa.schema([(f"c{k}", pa.int64()) for k in range(20_000)])


def test_columns_are_checked_in_a_time_that_grows_with_their_number() -> None:
    file: Any = SimpleNamespace(schema_arrow=WIDE)
    began_s = time.process_time()
    parquet._check_columns(file, "f", WIDE.names)
    rstream._check_columns("f", WIDE, WIDE)
    assert time.process_time() - began_s < 2, "their square took 5 s of the one, 100 s of the other"
