"""Every block of docs/USERCODE.md runs, in order, with the output or error shown below it.

Each block is also a separate test: it gets the first block, and the functions and classes of the
blocks above it.

Not covered: a wrong sentence between the blocks.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
from typing import TYPE_CHECKING, Any

import pytest

from rstream.errors import StreamEngineError
from tests.rooms import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "USERCODE.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```\n(?:```(text|error)\n(.*?)^```\n)?",
    PAGE.read_text(),
    re.MULTILINE | re.DOTALL,
)


#: Each block runs after the whole first block, and after these statements of the blocks in between,
#: which run no job.
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def page(folder: Path, number: int) -> dict[str, Any]:
    """Block ``number`` as a module with a file, so that errors can show lines."""
    path = folder / "page.py"
    path.write_text("")
    spec = importlib.util.spec_from_file_location("usercode_page", path)
    assert spec is not None
    names = importlib.util.module_from_spec(spec).__dict__
    names["folder"] = str(folder)
    for k, (code, *_) in enumerate(BLOCKS[:number]):
        above = ast.parse(code)
        if k:
            above.body = [line for line in above.body if isinstance(line, _DEFINITIONS)]
        exec(compile(above, str(path), "exec"), names)
    return names


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_page_prints_the_output_shown(number: int, tmp_path: Path) -> None:
    code, kind, expected = BLOCKS[number]
    names = page(tmp_path, number)
    printed = io.StringIO()
    compiled = compile(code, str(tmp_path / "page.py"), "exec")
    with contextlib.redirect_stdout(printed):
        if kind == "error":
            with pytest.raises(StreamEngineError) as raised:
                exec(compiled, names)
            assert expected.strip() in str(raised.value)
            return
        exec(compiled, names)
    assert printed.getvalue() == expected
