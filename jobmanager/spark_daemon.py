"""Spark's Python daemon with this project's imports done: workers are forked ready to run.

Spark starts ``python -m <spark.python.daemon.module>`` once per executor and forks a worker from it
for every task. Importing before the fork makes a host start in milliseconds instead of a second,
which is most of the time that recovery after a lost worker takes, and shares the libraries' memory.
Nothing imported here may start a thread or open a connection.

What is there before the fork is taken out of the garbage collector's sight: Spark has each worker
collect all its garbage after every task, which took five times as long as a small task itself.
A thread of a worker that waits for the interpreter has it after :data:`SWITCH_S`: flushes and lines
to other hosts run beside the steps of vertices, and neither should wait as long as a step takes.
"""

import gc
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pandas  # pyarrow imports it at the first conversion
import pyarrow.compute
import pyspark.worker
from pyspark.daemon import manager

import planner
import rvertex.host.host
import rvertex.host.spark
from rstream.store.blobs import open_store

__all__ = ["manager", "pandas", "planner", "pyarrow", "pyspark", "rvertex"]

open_store(os.getcwd())  # loads the local file system's module
gc.collect()
gc.freeze()
#: Python's own choice, 5 ms, is longer than most steps.
SWITCH_S = 0.0005
sys.setswitchinterval(SWITCH_S)

if __name__ == "__main__":
    manager()
