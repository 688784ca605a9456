"""How deeply JSON is nested: the parser calls itself for each level and would end the process.

Most lines have one object and nothing in it; that is seen by counting brackets. Levels are counted
only where there are more: exactly, without the brackets in strings and across line ends, because
the parser does not end an object with its line either.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: Levels of objects and lists. Parquet takes columns of at most about 100 levels of its own, of
#: which a list has two.
LEVELS_MAX = 48
TOO_DEEP = f"it is nested more than {LEVELS_MAX} levels deep"
_QUOTE = ord('"')
#: What says nothing of levels once escaped quotes are gone.
_OTHERS = bytes(set(range(256)) - set(b'{[]}"'))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")] = 1
_STEPS[list(b"}]")] = -1


def check_levels(chunk: bytes) -> None:
    """Refuse JSON that is nested too deeply.

    Raises:
        pyarrow.ArrowInvalid: there is some.
    """
    opening = chunk.count(b"{") + chunk.count(b"[")
    ended = chunk.count(b"}\n{") or chunk.count(b"}\r\n{")  # behind it a bracket is the first again
    if opening - ended >= LEVELS_MAX and _levels(chunk) > LEVELS_MAX:
        raise pa.ArrowInvalid(TOO_DEEP)


def _levels(chunk: bytes) -> int:
    """Of text that is no JSON: at least as many as the parser meets before it says so."""
    if b"\\" in chunk:
        chunk = chunk.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(chunk.translate(None, _OTHERS), np.uint8)
    is_text = np.logical_xor.accumulate(marks == _QUOTE)
    steps = _STEPS[marks]
    steps[is_text] = 0
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))
