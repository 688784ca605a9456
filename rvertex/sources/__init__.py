"""Where a job's rows come from: what to read, what it consists of, and readers from any row."""

from rvertex.sources.discover import assign, discover, infer_schema, partition_count
from rvertex.sources.readers import SourceReader, open_reader
from rvertex.sources.spec import SourcePartition, SourceSpec, Unit

__all__ = [
    "SourcePartition",
    "SourceReader",
    "SourceSpec",
    "Unit",
    "assign",
    "discover",
    "infer_schema",
    "open_reader",
    "partition_count",
]
