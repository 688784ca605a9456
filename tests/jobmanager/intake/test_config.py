"""The configuration of an intake: streams and limits from a file, or the logs of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from jobmanager.intake.config import load_config
from jobmanager.intake.errors import IntakeConfigError
from jobmanager.intake.server import serve
from jobmanager.intake.tokens import read_tokens
from rstream import Appender

if TYPE_CHECKING:
    from pathlib import Path

GOOD = 'root = "r"\n[streams.a.columns]\nt = "timestamp"\nn = "int64 not null"\n'


def test_a_file_declares_streams_and_limits(tmp_path: Path) -> None:
    file = tmp_path / "intake.toml"
    file.write_text(GOOD + "[limits]\nbody_bytes_max = 7\n[append_limits]\ncommit_wait_ms = 0.5\n")
    config = load_config(str(file))
    schema = pa.schema([("t", pa.timestamp("us", "UTC")), pa.field("n", pa.int64(), False)])
    assert config.streams == {"a": schema}
    assert config.uri("a") == str(tmp_path / "r" / "a")
    assert (config.limits.body_bytes_max, config.append_limits.commit_wait_ms) == (7, 0.5)


def test_a_retention_applies_to_all_logs(tmp_path: Path) -> None:
    file = tmp_path / "intake.toml"
    file.write_text(GOOD + "[append_limits]\nretention_s = 5\ncommit_wait_ms = 0.5\n")
    config = load_config(str(file))
    assert config.append_limits.retention_s == 5
    limits = config.with_retention(7_000_000).append_limits
    assert (limits.retention_s, limits.commit_wait_ms) == (7, 0.5)


def test_a_folder_serves_its_logs(tmp_path: Path) -> None:
    for name in ("b", "a"):
        Appender(str(tmp_path / name), {"n": pa.int64()}).close()
    (tmp_path / "c").mkdir()
    assert load_config(str(tmp_path)).streams == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root = ", "Invalid value"),
        ("", "it needs root"),
        ('root = "r"', "it needs root"),
        ('root = "r"\n[streams]\n', "it needs root"),
        ('root = "r"\n[streams.a]\n', "stream a needs a table"),
        ('root = "r"\n[streams."../a".columns]\nn = "int64"\n', "a name may have only letters"),
        ('root = "r"\n[streams.a.columns]\nn = "number"\n', "stream a, column n: no type"),
        (GOOD + "[limits]\nbody = 7\n", "'body' is not one of"),
        (
            GOOD + '[limits]\nbody_bytes_max = "7"\n',
            "body_bytes_max must be a number of 0 or more, not '7'",
        ),
        (GOOD + "[limits]\nflight_silence_s = nan\n", "must be a number of 0 or more, not nan"),
        (GOOD + "[limits]\nflight_silence_s = inf\n", "must be a number of 0 or more, not inf"),
        (
            GOOD + "[limits]\nflight_silence_s = 0\n",
            "flight_silence_s = 0 would reject all rows",
        ),
        (GOOD + "[append_limits]\nsegments_waiting_max = 0\n", "waiting_max = 0 would reject"),
        (GOOD + "[append_limits]\nproducers_max = 0\n", "producers_max = 0 would reject"),
        (
            GOOD + "[limits]\nposts_waiting_max = 0\n",
            "posts_waiting_max = 0 would reject all rows",
        ),
        (GOOD + "[more]\n", "'more' is not one of"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "intake.toml"
    file.write_text(text)
    with pytest.raises(IntakeConfigError, match=message) as caught:
        load_config(str(file))
    assert str(file) in str(caught.value)


def test_an_error_for_a_folder_without_logs_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(IntakeConfigError, match=r"give FILE.toml"):
        load_config(str(tmp_path))
    with pytest.raises(IntakeConfigError, match="No such file"):
        load_config(str(tmp_path / "none.toml"))


def test_tokens_are_long_and_there_may_be_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens"
    file.write_text("0123456789abcdef\n\nfedcba9876543210\n")
    assert read_tokens(str(file)) == [b"0123456789abcdef", b"fedcba9876543210"]
    monkeypatch.delenv("STREAMSCOPE_INTAKE_TOKEN", raising=False)
    assert read_tokens(None) == []
    monkeypatch.setenv("STREAMSCOPE_INTAKE_TOKEN", "short")
    with pytest.raises(IntakeConfigError, match="at least 16 characters"):
        read_tokens(None)


def test_a_taken_address_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMSCOPE_INTAKE_TOKEN", raising=False)
    file = tmp_path / "intake.toml"
    file.write_text(GOOD)
    for host in ("0.0.0.0", "192.0.2.1", "intake.example"):
        with pytest.raises(IntakeConfigError, match="need a token"):
            serve(
                load_config(str(file)),
                host=host,
                port=0,
                flight_port=None,
                token_file=None,
                is_plain=True,
                as_json=False,
            )
    assert not (tmp_path / "r").exists()
