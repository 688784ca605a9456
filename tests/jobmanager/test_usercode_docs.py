"""Every block of docs/USERCODE.md runs, in order, and prints or raises what stands below it.

Cannot catch: a sentence between the blocks that is wrong.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import pytest

from rstream.errors import StreamEngineError

PAGE = Path(__file__).parent.parent.parent / "docs" / "USERCODE.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```\n(?:```(text|error)\n(.*?)^```\n)?",
    PAGE.read_text(),
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the blocks share, in a module with a file, so that lines can be shown."""
    path = tmp_path_factory.mktemp("usercode")
    (path / "page.py").write_text("")
    spec = importlib.util.spec_from_file_location("usercode_page", path / "page.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["folder"] = str(path)
    return module.__dict__


@pytest.mark.parametrize(("code", "kind", "expected"), BLOCKS, ids=range(len(BLOCKS)))
def test_block(code: str, kind: str, expected: str, names: dict[str, Any]) -> None:
    printed = io.StringIO()
    compiled = compile(code, str(Path(names["folder"]) / "page.py"), "exec")
    with contextlib.redirect_stdout(printed):
        if kind == "error":
            with pytest.raises(StreamEngineError) as raised:
                exec(compiled, names)
            assert expected.strip() in str(raised.value)
            return
        exec(compiled, names)
    assert printed.getvalue() == expected
