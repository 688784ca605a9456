"""The code in a capsule runs and holds no secret.

Not covered: a secret composed of texts whose names do not reveal it.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from jobmanager.replay.rows.starred import LEFT_OUT, starred


def test_code_without_its_secrets_still_runs() -> None:
    code = """
import os
password = "planted"; token: str = 'plan\\x74ed'
config = {"sasl.password": "planted", "user": "kept", "ssl.key.password": "env:KEPT"}
api_secret = os.environ.get("NAME", "planted")
dsn = "postgresql://me:planted@host/db"
schema = {"token": "string", "secret": "float64", "password": "list<string>"}
called = dict(password="planted", secret=len(password))
def f(user="kept", password="planted"): return (\"h\u00e4\", "planted-in-plan", password)
"""
    found = starred(code.encode(), {"planted-in-plan"}, is_python=True)
    assert b"plan" not in found
    assert found.count(b"kept") == 2
    values: dict[str, Any] = {}
    exec(found, values)
    assert values["password"] == values["token"] == values["called"]["password"] == "*" * 7
    assert values["config"]["ssl.key.password"] == "env:KEPT"
    assert values["dsn"] == "postgresql://me:*******@host/db"
    assert set(values["schema"].values()) == {"string", "float64", "list<string>"}
    assert values["f"]() == ("h\u00e4", "*" * 15, "*" * 7)
    assert starred(b"WITH ('password' = 'planted')", set(), is_python=False).count(b"*") == 7


LEAKS = """
def f(*, password="planted"): pass
def f(password="planted", /, user="kept"): pass
def f(user="kept", *, secret=b"planted"): pass
lambda *, password="planted": 1
user, password = "u", "planted"
(user, (password, *rest)) = "u", ("planted",)
x.password = self["password"] = "planted"
password = b"planted"
password = "planted" if x else y
password = os.environ["KEPT"] or get("P", "planted")
password = os.environ.get("KEPT", "planted")
password = os.getenv("KEPT") or "planted"
password = "plan" + "ted"
password += "planted"
password = f"{x:>10}planted"
(password := "planted")
f(x, password=["planted"])
f(token="planted", **{"token": "planted"})
x = {"user": {"password": ["planted"]}}
setattr(x, "password", "planted")
conf.setdefault("password", "planted")
x = [("password", "planted")]
option("--password", "-p", default="planted", help="planted")
for password in ["planted"]: pass
x = [password for password in ["planted"]]
x = row["password"] == "planted"
def password(): return "planted"
x = ["postgresql://me:planted@host/kept"]
x = "kept", b"postgresql://me:planted@host/db"
def f(): return "postgresql://me:planted@host/kept"
x = f"postgresql://me:planted@{host}/kept"
x = f"postgresql://{user}:planted@{host}/kept"
x = "postgresql://" + user + ":planted@" + host
x = "postgresql://me:" + "planted" + "@host/kept"
sql("CREATE TABLE kept WITH ('password' = 'planted')")
# password = planted
x = 1  # h\u00e4 kept: postgresql://me:planted@host/db
x = "in-pl" "an", b"in-pl\\x61n", 20261128
f"h\u00e4 {x!r:>{width}} kept in-plan"
"""


@pytest.mark.parametrize("line", LEAKS.strip().splitlines())
def test_a_secret_is_masked_everywhere(line: str) -> None:
    secrets = {"in-plan", "20261128"}
    found = starred(f"{line}\n".encode(), secrets, is_python=True).decode()
    assert found != f"{line}\n"
    assert not re.search("plan|ted|2026", found)
    assert [found.lower().count(word) for word in ("kept", ">")] == [
        line.lower().count(word) for word in ("kept", ">")
    ]
    ast.parse(found)


@pytest.mark.parametrize(
    "line",
    [
        'password = os.environ["NAME"]',
        'tokens = {"word": batch.column("word")}',
        'x = {"token": f("word"), "password": "env:NAME", "secret": "list<string>"}',
        'DSN = "postgresql://me:%s@host/db" % password',
        'DSN = f"postgresql://me:{password}@host/db"',
        'DSN = "postgresql://me:env:NAME@host/db"',
        'names = ["password", "user"]',
        'if token == "the": pass',
        'user, _, password = login.partition(":")',
        'tokens = pc.split_pattern(batch.column("text"), "  ")',
    ],
)
def test_code_without_a_secret_is_unchanged(line: str) -> None:
    assert starred(f"{line}\n".encode(), {"planted"}, is_python=True).decode() == f"{line}\n"


@pytest.mark.parametrize(
    ("encoding", "first"),
    [("utf-8-sig", ""), ("latin-1", "# coding: latin-1\n"), ("utf-8", "\r\n\fx = 1\r\n")],
)
def test_secrets_are_found_in_files_of_any_encoding(encoding: str, first: str) -> None:
    code = f'{first}h\u00e4 = "h\u00e4"; password = "planted\\u20ac"; x = f"\\u20ac in-plan"\n'
    found = starred(code.encode(encoding), {"in-plan"}, is_python=True)
    values: dict[str, Any] = {}
    exec(found, values)
    assert (values["h\u00e4"], values["password"]) == ("h\u00e4", "*" * 8)
    assert values["x"] == "\u20ac *******"


def test_a_short_secret_does_not_break_the_code() -> None:
    code = b'import os\nfor x in "or", "ok": pass\npassword = "planted"\n'
    found = starred(code, {"or", "p", ""}, is_python=True)
    assert found == b"import os\nfor x in '**', \"ok\": pass\npassword = '*******'\n"


@pytest.mark.parametrize("code", ['password = "planted" +\n', 'x = "planted\n', "planted\0", "'"])
def test_a_capsule_has_no_python_file_that_cannot_be_parsed(code: str) -> None:
    assert starred(code.encode(), set(), is_python=True) == LEFT_OUT
