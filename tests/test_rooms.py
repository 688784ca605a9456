"""The tree: rooms in order, imports in one direction, no import cycle, small folders.

Not covered: a line in the wrong room, or an import hidden in a string.
"""

from __future__ import annotations

from tests.rooms import ABOVE, FILES, PACKAGES, PURE, ROOMS, ROOT, imported_files, room_of

ENTRIES_MAX = 14


def test_every_file_has_a_room() -> None:
    assert len(ROOMS) == len(set(ROOMS))
    assert {room_of(file) for file in FILES} == set(ROOMS)
    assert [room for room in PURE if not (ROOT / room).exists()] == []


def test_imports_go_to_rooms_below_without_circles() -> None:
    """A package's ``__init__.py`` collects names for its users; its own files do not import it.

    One test checks both laws, because reading the imports of all files takes most of the time.
    """
    rank = {file: ROOMS.index(room_of(file)) for file in FILES}
    above = [
        f"{file} must not import {f}: its room is above (tests/rooms.py)"
        for file in FILES
        for f in sorted(imported_files(file))
        if rank[f] > rank[file]
    ]
    assert not above, "\n".join(above)
    left = {file: {f for f in imported_files(file) if not is_init(f)} for file in FILES}
    while free := [file for file, found in left.items() if not found & left.keys()]:
        for file in free:
            del left[file]
    while free := [file for file in left if not any(file in found for found in left.values())]:
        for file in free:
            del left[file]
    assert not left, f"files import each other: {sorted(left)}"


def is_init(file: str) -> bool:
    return file.endswith("/__init__.py")


def test_a_folder_has_few_entries() -> None:
    wrong = []
    for folder in sorted({file.rpartition("/")[0] for file in FILES}):
        found = {path.name for path in (ROOT / folder).iterdir()}
        entries = sorted(found - {"__init__.py", "__init__.pyi", "__pycache__", "py.typed"})
        if len(entries) > ENTRIES_MAX:
            wrong.append(f"{folder} has {len(entries)} entries: {entries}")
        if not (ROOT / folder / "__init__.py").read_text().startswith('"""'):
            wrong.append(f"{folder}/__init__.py must say what the room is for")
    assert not wrong, "\n".join(wrong)


def test_packages_are_the_last_of_their_rooms() -> None:
    order = [room for room in ROOMS if room in PACKAGES]
    assert order == list(PACKAGES)
    below = [room for room in ROOMS if not room.startswith(ABOVE)]
    assert list(ROOMS[: len(below)]) == below
    for room in below:
        package = room.split("/")[0]
        assert ROOMS.index(room) <= ROOMS.index(package)
