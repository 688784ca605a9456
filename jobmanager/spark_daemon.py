"""Spark's Python daemon, with this project's modules imported before it forks workers.

Spark starts ``python -m <spark.python.daemon.module>`` once per executor and forks a worker from it
for every task. With the imports before the fork, a host starts in milliseconds instead of a second.
That second is most of the recovery time after a lost worker. The workers also share the libraries'
memory. Modules imported here must not start a thread or open a connection.

Objects that exist before the fork are frozen, so the garbage collector skips them. Spark makes each
worker collect all garbage after every task, which took five times as long as a small task itself.
A thread that waits for the interpreter lock gets it after :data:`SWITCH_S`. Flushes and connections
to other hosts run beside the steps of vertices, and should not wait until a step ends.
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
#: Python's default, 5 ms, is longer than most steps.
SWITCH_S = 0.0005
sys.setswitchinterval(SWITCH_S)

if __name__ == "__main__":
    manager()
