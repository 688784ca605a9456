"""Pauses of the collector nest over threads, and a look at another thread never collects.

Cannot catch: code of a user that switches the collector on within such a look.
"""

from __future__ import annotations

import gc
import sys
import threading
from typing import TYPE_CHECKING

from rvertex.state.collector import collector_paused, frame_of

if TYPE_CHECKING:
    from types import FrameType

    import pytest


def test_the_last_pause_to_end_switches_it_on() -> None:
    assert gc.isenabled()
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_look_at_a_thread_never_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look makes frames, so a collection could begin in it."""
    real, is_on = sys._current_frames, list[bool]()

    def look() -> dict[int, FrameType]:
        is_on.append(gc.isenabled())
        return real()

    monkeypatch.setattr(sys, "_current_frames", look)
    frame = frame_of(threading.get_ident())
    assert frame is not None
    assert frame.f_code.co_name == "look"
    assert is_on == [False]
    assert gc.isenabled()
