"""In these tests, stores sync their files as in production."""

from __future__ import annotations

import os

import pytest

from tests.conftest import REAL_FSYNC


@pytest.fixture(autouse=True)
def real_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", REAL_FSYNC)
