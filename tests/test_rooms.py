"""The tree: rooms in an order, imports that flow one way, no circle of files, short folders.

Cannot catch: a line in the wrong room, or an import that is hidden in a string.
"""

from __future__ import annotations

import pytest

from tests.rooms import FILES, PACKAGES, PURE, ROOMS, ROOT, imported_files, room_of

ENTRIES_MAX = 14
#: Nodes hold nodes: these files import each other for types alone.
NODES = {
    f"planner/logical/{name}.py"
    for name in ("aggregation", "nodes", "one_input", "recover", "user_step")
}
IMPORTED = {file: imported_files(file) for file in FILES}


def test_every_file_has_a_room() -> None:
    assert len(ROOMS) == len(set(ROOMS))
    assert {room_of(file) for file in FILES} == set(ROOMS)
    assert [room for room in PURE if not (ROOT / room).exists()] == []


@pytest.mark.parametrize("file", FILES)
def test_a_room_imports_rooms_below_it(file: str) -> None:
    rank = ROOMS.index(room_of(file))
    wrong = sorted(f for f in IMPORTED[file] if ROOMS.index(room_of(f)) > rank)
    assert not wrong, f"{file} must not import {wrong}: their rooms are above (tests/rooms.py)"


def test_there_is_no_circle_of_files() -> None:
    """A package's ``__init__.py`` gathers names for its users; its own files do not import it."""
    left = {
        file: {f for f in found if not is_init(f) and not {file, f} <= NODES}
        for file, found in IMPORTED.items()
    }
    while free := [file for file, found in left.items() if not found & left.keys()]:
        for file in free:
            del left[file]
    while free := [file for file in left if not any(file in found for found in left.values())]:
        for file in free:
            del left[file]
    assert not left, f"files import each other: {sorted(left)}"


def is_init(file: str) -> bool:
    return file.endswith("/__init__.py")


@pytest.mark.parametrize("folder", sorted({file.rpartition("/")[0] for file in FILES}))
def test_a_folder_is_seen_at_one_glance(folder: str) -> None:
    entries = [
        path.name
        for path in (ROOT / folder).iterdir()
        if path.name not in {"__init__.py", "__pycache__", "py.typed"}
    ]
    assert len(entries) <= ENTRIES_MAX, f"{folder} has {len(entries)} entries: {sorted(entries)}"
    says = (ROOT / folder / "__init__.py").read_text()
    assert says.startswith('"""'), f"{folder}/__init__.py must say what the room is for"


def test_packages_are_the_last_rooms_of_their_own() -> None:
    order = [room for room in ROOMS if room in PACKAGES]
    assert order == list(PACKAGES)
    for room in ROOMS:
        package = room.split("/")[0]
        assert ROOMS.index(room) <= ROOMS.index(package)
