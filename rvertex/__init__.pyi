"""The public names and their modules, which are imported when a name is first used."""

from rvertex.vertex import merge as merge
from rvertex.vertex.rvertex import RVertex as RVertex
from rvertex.vertex.spec import Snapshot as Snapshot
