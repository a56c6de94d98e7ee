"""`fluidlite docs`: the pages of the documentation, and what is known of a name, in the terminal."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import fluidlite
from fluidlite.base.errors import did_you_mean
from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError
from fluidlite.cli.files import folder_of
from fluidlite.cli.parsing import Parser

__all__ = ["INDEX", "Page", "PageGroup", "groups", "main", "page_names", "parser"]

INDEX = "README.md"
_PAGE = re.compile(r"^- \[(.+?)\]\((\S+?\.md)\): (.+)$")
_COMMENT = re.compile(r"^<!-- .* -->\n", re.M)
_MOST_FOUND = 40
_BEFORE = "(np is numpy, fluid is fluidlite, and exe is fluid.Executor(fluid.CPUPlace()))"
# names of the API without a module in front are looked for here, in this order
_HOMES = (
    "fluidlite",
    "fluidlite.layers",
    "fluidlite.optimizer",
    "fluidlite.io",
    "fluidlite.paddle",
    "fluidlite.distributed",
)
_EXAMPLES = """\
examples:
  fluidlite docs                    list the pages
  fluidlite docs start              show a page
  fluidlite docs fc                 describe a layer, a class or a module: arguments, shapes, examples
  fluidlite docs paddle.nn.Linear   the same, by its full name
  fluidlite docs --search deadlock  lines of the pages that hold these words
"""


class Page(NamedTuple):
    """A page in the index: the word that the command takes, its title, its file and what it is about."""

    name: str
    title: str
    file: str
    about: str


class PageGroup(NamedTuple):
    """A heading of the index, and its pages."""

    title: str
    pages: tuple[Page, ...]


def groups(text: str) -> list[PageGroup]:
    """The groups of an index, `docs/README.md`: its headings of the second level, and the links in them."""
    found: list[PageGroup] = []
    for line in text.splitlines():
        entry = _PAGE.match(line)
        if line.startswith("## "):
            found.append(PageGroup(line[3:], ()))
        elif entry and found:
            page = Page(pathlib.Path(entry[2]).stem.lower(), *entry.groups())
            found[-1] = found[-1]._replace(pages=(*found[-1].pages, page))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code, 2 when there is no such page or name."""
    return run_command("fluidlite docs", _run, argv)


def parser() -> Parser:
    """The parser of `fluidlite docs`."""
    made = Parser(
        prog="fluidlite docs",
        description="Show the documentation that is installed with FluidLite.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("name", nargs="?", help="a page, or a name of the API such as fc or layers.conv2d")
    made.add_argument("--search", nargs="+", metavar="WORD", help="find lines with all of these words")
    made.add_argument("--folder", action="store_true", help="print the folder of the pages")
    return made


def _run(argv: Sequence[str]) -> int:
    options = parser().parse_args(list(argv))
    folder = folder_of("docs")
    index = _index(folder)
    pages = _installed(folder, index)
    if options.folder:
        sys.stdout.write(f"{folder}\n")
    elif options.search:
        _write("".join(_found(folder, pages.values(), options.search)) or "no line has all of these words\n")
    elif options.name is None:
        _write(_listed(index, pages))
    elif options.name.lower() in pages:
        _write_page((folder / pages[options.name.lower()].file).read_text(encoding="utf8"))
    else:
        _write(_described(options.name, pages))
    return 0


def page_names() -> list[str]:
    """The words for pages."""
    folder = folder_of("docs")
    return list(_installed(folder, _index(folder)))


def _index(folder: pathlib.Path) -> list[PageGroup]:
    return groups((folder / INDEX).read_text(encoding="utf8"))


def _installed(folder: pathlib.Path, index: Sequence[PageGroup]) -> dict[str, Page]:
    """Word -> page. The last ones of the index lie beside the folder of a checkout, and are not installed."""
    return {page.name: page for group in index for page in group.pages if (folder / page.file).is_file()}


def _write(text: str) -> None:
    sys.stdout.write(text)


def _listed(index: Sequence[PageGroup], pages: dict[str, Page]) -> str:
    width = max(map(len, pages))
    lines = []
    for group in index:
        here = [page for page in group.pages if page.name in pages]
        lines += [group.title, *(f"  {page.name:<{width}}  {page.title}" for page in here), ""]
    return "\n".join([*lines, "fluidlite docs NAME shows a page, or describes a name of the API.", ""])


def _found(folder: pathlib.Path, pages: Any, words: Sequence[str]) -> Iterator[str]:
    """Lines of pages that hold all words, each with its page and the heading above it."""
    wanted = [word.lower() for word in words]
    count = 0
    for page in pages:
        heading = page.title
        for line in (folder / page.file).read_text(encoding="utf8").splitlines():
            if line.startswith("#"):
                heading = line.lstrip("# ")
            if all(word in line.lower() for word in wanted):
                count += 1
                if count > _MOST_FOUND:
                    yield "... and more: give more words\n"
                    return
                yield f"{page.name} ({heading}): {line.strip()}\n"


def _write_page(text: str) -> None:
    """A page on a terminal, or as it is where the output goes elsewhere."""
    text = _COMMENT.sub("", text)
    if not sys.stdout.isatty() or importlib.util.find_spec("rich") is None:
        _write(text)
        return
    from rich.console import Console  # of the extra [examples]
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))


# ---------------------------------------------------------------------- names of the API
def _described(name: str, pages: dict[str, Page]) -> str:
    """The docstring of a function, class or module with its arguments; UsageError for an unknown name."""
    for full_name in _candidates(name):
        thing = _thing(full_name)
        if thing is not None:
            return _text(full_name, thing)
    known = (*pages, *dir(fluidlite), *dir(fluidlite.layers))
    raise UsageError(f"there is no page and no name {name!r}{did_you_mean(name, known)} (fluidlite docs)")


def _candidates(name: str) -> Iterator[str]:
    """Full names that a name may stand for."""
    for prefix in ("paddle.fluid.", "fluid.", "fluidlite."):
        if name.startswith(prefix):
            yield f"fluidlite.{name.removeprefix(prefix)}"
    for home in _HOMES:
        yield f"{home}.{name}"


def _thing(full_name: str) -> Any:
    """The object of a full name; None where there is none."""
    parts = full_name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part, None)
            if thing is None:
                return None
        return thing
    return None


def _text(full_name: str, thing: Any) -> str:
    about = inspect.getdoc(thing) or "(no description)"
    if inspect.ismodule(thing):
        names = ", ".join(thing.__all__) if "__all__" in vars(thing) else ""
        return f"module {full_name}\n\n{about}\n" + (f"\n{names}\n" if names else "")
    if not callable(thing):
        return f"{full_name} = {thing!r}\n"
    methods = [
        f"  .{name}: {(inspect.getdoc(method) or '').partition(chr(10))[0]}\n"
        for name, method in inspect.getmembers(thing, inspect.isroutine)
        if inspect.isclass(thing) and not name.startswith("_")
    ]
    about += f"\n\n{_BEFORE}" if "exe.run" in about else ""
    return f"{full_name}{_signature(thing)}\n\n{about}\n" + "".join(["\n", *methods] if methods else [])


def _signature(thing: Any) -> str:
    """The arguments, one below the other where they do not fit into a line."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    plain = str(found).replace("'", "")
    if len(plain) < 80:
        return plain
    rows = "".join(f"\n    {str(each).replace(chr(39), '')}," for each in found.parameters.values())
    return f"({rows}\n)"


if __name__ == "__main__":
    sys.exit(main())
