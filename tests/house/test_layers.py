"""The layers of the house: `docs/ARCHITECTURE.md` has a table of rooms, and every import is held against it.

Nothing is exempt: imports inside functions count as the others do, in the table and in the search for
circles, and need a reason in `LAZY` besides.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from modules import ROOT, Import, circles, imports, modules

TABLE = ROOT / "docs" / "ARCHITECTURE.md"

# (importer, imported) patterns of imports inside functions -> the reason; third-party packages do not count
LAZY: dict[tuple[str, str], str] = {
    ("fluidlite", "*"): "start-up time: `import fluidlite` opens no room before a name of it is used",
    (
        "fluidlite.show",
        "fluidlite.*",
    ): "start-up time: the command needs the names of all formats, and writes one",
    ("fluidlite.cli.show", "fluidlite.cli.models"): "start-up time: only values need the executor",
    ("fluidlite.io", "fluidlite.saving.onnx.*"): "start-up time: rules for all ops of ONNX",
    ("fluidlite.cli.launch", "fluidlite.executor.timeline"): "start-up time: only --trace needs the executor",
    ("fluidlite.cli.transpile", "fluidlite.cli.proofs"): "start-up time: only proofs need the executor",
    (
        "fluidlite.cli.run",
        "fluidlite.cli.*",
    ): "scripts set the environment before anything of Paddle is imported",
    (
        "fluidlite.executor.comm.transports",
        "fluidlite.executor.comm.*",
    ): "start-up time: a process is started for one transport at the most, and most are for none",
}


@dataclass(frozen=True)
class Room:
    """A row of the table: a name, patterns of the files in it, and the rooms that these may import."""

    name: str
    patterns: tuple[str, ...]
    below: frozenset[str]


def rooms() -> list[Room]:
    """The rows of the table, from the lowest floor up."""
    text = TABLE.read_text(encoding="utf8").split("<!-- layers -->")[1].split("<!-- /layers -->")[0]
    rows = [line.strip("| ").split("|") for line in text.strip().splitlines()[2:]]
    return [_room(*(cell.strip() for cell in [*row, ""][:3])) for row in rows]


def _room(name: str, files: str, below: str) -> Room:
    patterns = tuple(each for quoted in re.findall(r"`(.+?)`", files) for each in _spelled_out(quoted))
    return Room(name, patterns, frozenset(filter(None, below.split(", "))))


def _spelled_out(pattern: str) -> list[str]:
    """`fluidlite/{clip,nets}.py` -> `fluidlite/clip.py`, `fluidlite/nets.py`."""
    match = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    if match is None:
        return [pattern]
    return [f"{match[1]}{name}{match[3]}" for name in match[2].split(",")]


def _homes() -> dict[str, list[tuple[str, Room]]]:
    """Module -> the most specific patterns that its file fits, each with its room."""
    found = {}
    for name, path in modules().items():
        file = str(path.relative_to(ROOT))
        fits = [
            (pattern, room)
            for room in rooms()
            for pattern in room.patterns
            if file == pattern or (pattern.endswith("/") and file.startswith(pattern))
        ]
        longest = max((len(pattern) for pattern, _ in fits), default=0)
        found[name] = [fit for fit in fits if len(fit[0]) == longest]
    return found


def _shown(found: Import) -> str:
    return f"{found.importer}:{found.line} imports {found.imported}"


def test_every_module_stands_in_one_room() -> None:
    homes = _homes()
    assert not {name: fits for name, fits in homes.items() if len(fits) != 1}
    used = {pattern for fits in homes.values() for pattern, _ in fits}
    assert not {pattern for room in rooms() for pattern in room.patterns} - used, "patterns without a file"


def test_the_table_goes_upwards() -> None:
    seen: set[str] = set()
    for room in rooms():
        assert room.name not in seen
        assert room.below <= seen, f"{room.name} may import only rooms that stand before it in the table"
        seen.add(room.name)


def test_imports_point_downwards() -> None:
    homes = {name: fits[0][1] for name, fits in _homes().items()}
    wrong: list[str] = []
    used: set[tuple[str, str]] = set()
    for found in imports():
        mine, other = homes[found.importer], homes[found.imported]
        if other.name in mine.below:
            used.add((mine.name, other.name))
        elif other.name != mine.name:
            wrong.append(_shown(found))
    assert not wrong, "\n".join(["not in the table of docs/ARCHITECTURE.md:", *wrong])
    allowed = {(room.name, below) for room in rooms() for below in room.below}
    unused = sorted(allowed - used)
    assert not unused, f"nothing needs these any more, take them out of the table: {unused}"


def test_no_circles() -> None:
    assert not circles(), "modules that import each other"


def _reason(found: Import) -> tuple[str, str] | None:
    """The line of LAZY that fits an import."""
    return next(
        (
            (importer, imported)
            for importer, imported in LAZY
            if fnmatch.fnmatch(found.importer, importer) and fnmatch.fnmatch(found.imported, imported)
        ),
        None,
    )


def test_imports_inside_functions_have_reasons() -> None:
    lazy = [found for found in imports() if found.lazy]
    wrong = [_shown(found) for found in lazy if _reason(found) is None]
    assert not wrong, "\n".join(["inside a function, and LAZY has no reason:", *wrong])
    assert not set(LAZY) - {_reason(found) for found in lazy}, "no such import any more: take it out of LAZY"
    assert len(LAZY) < 10
