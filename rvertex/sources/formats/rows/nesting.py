"""Rejects JSON that is nested too deeply: the parser recurses per level and would crash.

Most lines have one flat object, as a count of the brackets shows. Only in other text are the levels
counted exactly: brackets in strings are skipped, and line ends do not end a level, because the
parser does not end an object at a line end either.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: Most levels of objects and lists. Parquet allows about 100 levels per column, and a list takes
#: two.
LEVELS_MAX = 48
TOO_DEEP = f"it is nested more than {LEVELS_MAX} levels deep"
_QUOTE = ord('"')
#: Bytes that do not change the level: all except brackets and quotes. Escaped bytes are removed
#: first.
_OTHERS = bytes(set(range(256)) - set(b'{[]}"'))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")] = 1
_STEPS[list(b"}]")] = -1


def check_levels(chunk: bytes) -> None:
    """Raise for JSON that is nested too deeply.

    Raises:
        pyarrow.ArrowInvalid: a value has more than ``LEVELS_MAX`` levels.
    """
    opening = chunk.count(b"{") + chunk.count(b"[")
    ended = chunk.count(b"}\n{") or chunk.count(b"}\r\n{")  # no object is open at any line end
    if opening - ended >= LEVELS_MAX and _levels(chunk) > LEVELS_MAX:
        raise pa.ArrowInvalid(TOO_DEEP)


def _levels(chunk: bytes) -> int:
    """Return the deepest level of a text.

    If the text is not JSON, return at least the level that the parser reaches before it fails.
    """
    if b"\\" in chunk:
        chunk = chunk.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(chunk.translate(None, _OTHERS), np.uint8)
    is_text = np.logical_xor.accumulate(marks == _QUOTE)
    steps = _STEPS[marks]
    steps[is_text] = 0
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))
