"""The number of vertices of a stage."""

from __future__ import annotations

from typing import Literal

#: The default. It is fixed, not derived from the machine: the output's digest depends on it.
PARALLELISM = 2
PARALLELISM_MAX = 256
#: "auto": the number that the cost model recommends per stage, from the data and hints only.
Parallelism = int | Literal["auto"]
