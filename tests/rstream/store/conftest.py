"""Stores of these tests sync their files as those of users do."""

from __future__ import annotations

import os

import pytest

from tests.conftest import REAL_FSYNC


@pytest.fixture(autouse=True)
def real_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", REAL_FSYNC)
