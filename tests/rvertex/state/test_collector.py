"""Pauses of the garbage collector nest, and may end in any order.

Not covered: user code that turns the collector on during a pause.
"""

from __future__ import annotations

import gc

from rvertex.state.collector import collector_paused


def test_the_last_pause_to_end_enables_the_collector() -> None:
    assert gc.isenabled()
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
