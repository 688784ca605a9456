"""Rules over stages, applied before their vertices are built: one function per file."""

from planner.physical.rules.filter_early import filter_early as filter_early
from planner.physical.rules.forward_ctis import forward_ctis as forward_ctis
from planner.physical.rules.late_decode import late_decode as late_decode
from planner.physical.rules.skip_sort import skip_sort as skip_sort
