"""The code blocks of a Markdown page: read, and run as they stand.

A comment in front of a block says how it runs where the block alone cannot:

    <!-- run: file=train.py -->              save the block under that name for the commands of the page
    <!-- run: file=train.py processes=pserver,trainer -->      and run it once for each process of a job
    <!-- run: path=tests/ops -->             a folder that the page's Python imports from
    <!-- run: folder=examples -->            of the whole page, where no block follows: commands run there
    <!-- run: each=alone -->                 likewise: each block begins with nothing, as a program of its own

`python tests/house/pages.py docs/CHECK.md` runs a page's Python; with `--pictures` the SVG files that it
writes replace those that the page shows.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import fluidlite

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMENT = re.compile(r"<!-- run: (.*) -->")
OUTPUT_OF = "==== output of the block at line {} ===="


@dataclass(frozen=True)
class Block:
    """One fenced block: its page, the line where its text begins, its language, and how it is run."""

    page: str
    line: int
    language: str
    text: str
    run: dict[str, str]

    @property
    def place(self) -> str:
        """Page and line, such as `docs/CHECK.md:7`."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One `$ command` of a console block, its continuation lines included, and the output shown below it."""

    text: str
    shown: str


@dataclass(frozen=True)
class Page:
    """A Markdown file: its blocks in order, its text without them, and how its commands run."""

    name: str
    blocks: tuple[Block, ...]
    prose: str
    run: dict[str, str]

    def python(self) -> list[Block]:
        """The blocks that run one after the other in one interpreter."""
        return [block for block in self.blocks if block.language == "python" and "processes" not in block.run]

    def pictures(self) -> list[pathlib.Path]:
        """The SVG files that the page shows: its Python writes files of these names."""
        return [
            ROOT / "docs" / name for name in re.findall(r"\]\((?:docs/)?(pictures/[\w-]+\.svg)\)", self.prose)
        ]

    def shown_below(self, block: Block) -> str | None:
        """The `text` block that follows a Python block, if one does: what the Python prints."""
        following = self.blocks[self.blocks.index(block) + 1 :]
        return following[0].text if following and following[0].language == "text" else None


def read(path: pathlib.Path) -> Page:
    """The blocks and the prose of a page."""
    name = path.relative_to(ROOT).as_posix()
    blocks: list[Block] = []
    prose: list[str] = []
    of_page: dict[str, str] = {}
    of_block: dict[str, str] = {}
    lines = iter(enumerate(path.read_text(encoding="utf8").splitlines(), 1))
    for number, line in lines:
        found = COMMENT.fullmatch(line)
        if found:
            of_block = dict(part.split("=", 1) for part in found[1].split())
        elif line.startswith("```"):
            blocks.append(Block(name, number + 1, line[3:], _until_fence(lines), of_block))
            of_block = {}
        else:
            of_page.update(of_block)
            of_block = {}
            prose.append(line)
    return Page(name, tuple(blocks), "\n".join(prose), of_page)


def _until_fence(lines: Iterator[tuple[int, str]]) -> str:
    inside = []
    for _, line in lines:
        if line == "```":
            break
        inside.append(line + "\n")
    return "".join(inside)


def commands(block: Block) -> list[Command]:
    """The commands of a console block; a line that ends in a backslash goes on in the next."""
    parts = re.split(r"^\$ ", block.text, flags=re.M)
    assert not parts[0], f"{block.place}: a console block begins with `$ `"
    return [_command(part) for part in parts[1:]]


def _command(part: str) -> Command:
    found = re.match(r"(?:.*\\\n)*.*\n", part)
    assert found is not None
    return Command(found[0].rstrip("\n"), part[found.end() :])


def matches(shown: str, printed: str) -> bool:
    """True if the output is as shown: `...` alone on a line stands for any lines, within a line for any
    text.
    """
    pattern = ""
    for line in shown.rstrip("\n").splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part.rstrip()) for part in line.split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


def run_python(path: pathlib.Path) -> None:
    """Run a page's Python in order, as one script; tracebacks name the page and its line."""
    sys.argv[:] = [str(path)]
    page = read(path)
    names: dict[str, object] = {"__name__": "__main__", "__file__": str(path)}
    for block in page.python():
        sys.path += [str(ROOT / block.run["path"])] if "path" in block.run else []
        print(OUTPUT_OF.format(block.line), flush=True)
        if page.run.get("each") == "alone":
            names = {"__name__": "__main__", "__file__": str(path)}
            fluidlite.reset_default_programs(scope=True)
        exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), names)


def draw(path: pathlib.Path) -> None:
    """Put the pictures that a page's Python writes where the page shows them."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_python(path)
        for picture in read(path).pictures():
            shutil.copy(picture.name, picture)


if __name__ == "__main__":
    *flags, _name = sys.argv[1:]
    (draw if flags == ["--pictures"] else run_python)(pathlib.Path(_name).resolve())
