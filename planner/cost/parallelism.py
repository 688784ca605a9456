"""How many vertices a stage may have."""

from __future__ import annotations

from typing import Literal

#: Fixed, never derived from the machine: the digest of the output depends on it.
PARALLELISM = 2
PARALLELISM_MAX = 256
#: "auto": per stage what the cost model recommends, which follows from the data and hints alone.
Parallelism = int | Literal["auto"]
