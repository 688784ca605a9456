"""Hypothesis without deadlines."""

from __future__ import annotations

from hypothesis import settings

# Two cores are shared; how long one example takes says nothing.
settings.register_profile("rstream", deadline=None, max_examples=50)
settings.load_profile("rstream")
