"""Build the documentation: the Markdown pages as they lie in the repository, and a reference from docstrings.

    python docs/sphinx/build.py [FOLDER]         the HTML (default: build/docs), which needs the extra [docs]
    python docs/sphinx/build.py --pages FOLDER   only what it is made of

The pages are copied into a folder of the same shape, so that their links hold, and the pages of the reference
are written beside them. A thing that several modules offer is described once, under its shortest name. Every
warning is an error.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import fluidlite
from fluidlite.base import registry
from fluidlite.cli.docs import INDEX, PageGroup, groups

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).parent
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")  # beside README and docs

# Parts of the reference: title -> packages and modules. A module belongs to the longest prefix that fits it.
PARTS = {
    "Fluid's modules": ("fluidlite",),
    "Programs and ops": (
        "fluidlite.base",
        "fluidlite.ir",
        "fluidlite.ops",
        "fluidlite.show",
        "fluidlite.compat",
    ),
    "Arrays, files and feeding": ("fluidlite.values", "fluidlite.saving", "fluidlite.reading"),
    "The transpiler": ("fluidlite.transpiler",),
    "The executor": ("fluidlite.executor",),
    "Jobs and commands": ("fluidlite.distributed", "fluidlite.cli"),
}
# Modules whose things are described without their members: names of other modules, as Paddle's C++ had them.
SHALLOW = ("fluidlite.core",)
# Files of `fluidlite.layers` that fluid did not have.
BEHIND = tuple(
    f"fluidlite.layers.{name}" for name in ("arithmetic", "build", "flow", "neural", "recurrence", "tensors")
)
HOMES = {
    "fluidlite": ROOT / "fluidlite",
    "fluidlite.executor": ROOT / "executor",
    "fluidlite.transpiler": ROOT / "transpiler",
}
SKIPPED = ("fluidlite.proto.",)  # made by the protobuf compiler
COMMAND = "__main__"  # a module that runs when it is imported
OPS_INTRO = (
    "Slots read ``X`` (one variable), ``X*`` (any number), ``X?`` (may be absent). What an op computes is "
    "in its family's file in ``fluidlite/ops``, and in PaddlePaddle's documentation of the layer of its name."
)


@dataclass(frozen=True)
class Entry:
    """A public thing: the module that offers it on this page, its name there, and its shortest full name."""

    name: str
    full_name: str
    thing: Any


# ---------------------------------------------------------------------- what there is
def modules() -> Iterator[ModuleType]:
    """Every module, fluid's before those of rooms, so that things are described where fluid had them."""
    names = []
    for home, folder in HOMES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            names.append(".".join([home, *parts]).removesuffix(".__init__"))
    # the package of layers after its files, which divide its 300 functions among their pages
    for name in sorted(names, key=lambda name: (not is_fluids(name), name == "fluidlite.layers", name)):
        if not name.startswith(SKIPPED) and not name.endswith(COMMAND):
            yield importlib.import_module(name)


def is_fluids(module: str) -> bool:
    """True for a module that fluid had too; one behind another is a room's."""
    parts = module.split(".")
    if parts[1:2] in (["layers"], ["contrib"], ["incubate"]):
        return module not in BEHIND and (parts[1] != "layers" or len(parts) <= 3)
    return len(parts) <= 2 and part_of(module) == "Fluid's modules"


def part_of(module: str) -> str:
    """The part of the reference that a module belongs to."""
    fitting = {
        len(prefix): title
        for title, prefixes in PARTS.items()
        for prefix in prefixes
        if module == prefix or module.startswith(prefix + ".")
    }
    return fitting[max(fitting)]


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or the functions and classes that the module's file defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    tree = ast.parse(pathlib.Path(str(module.__file__)).read_text(encoding="utf8"))
    defined = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return [name for name in defined if not name.startswith("_") and hasattr(module, name)]


def offered(module: ModuleType) -> dict[str, Any]:
    """Public name -> thing. The top package loads its names when they are asked for."""
    names = fluidlite._NAMES.homes if module is fluidlite else public_names(module)
    return {name: getattr(module, name) for name in names}


def shortest_names(found: Mapping[str, Mapping[str, Any]]) -> dict[int, str]:
    """id of a function or class -> its full name with the fewest parts, that of its own module first."""
    names: dict[int, list[tuple[int, bool, bool, str]]] = {}
    for module, things in found.items():
        for name, thing in things.items():
            if callable(thing):
                full_name = f"{module}.{name}"
                own_name, own_module = getattr(thing, "__name__", name), getattr(thing, "__module__", module)
                order = (full_name.count("."), name != own_name, module != own_module, full_name)
                names.setdefault(id(thing), []).append(order)
    return {key: min(all_)[-1] for key, all_ in names.items()}


# ---------------------------------------------------------------------- pages
def write_reference(folder: pathlib.Path) -> None:
    """A page for each of fluid's modules and each room, one for all ops, and the index of each part."""
    folder.mkdir(parents=True)
    loaded = {module.__name__: module for module in modules()}
    found = {name: offered(module) for name, module in loaded.items()}
    shortest, described = shortest_names(found), set[str]()
    pages: dict[str, list[str]] = {}
    for name, module in loaded.items():
        entries = [
            Entry(key, shortest.get(id(thing), f"{name}.{key}"), thing) for key, thing in found[name].items()
        ]
        section = _section(module, entries, described)
        if section:
            pages.setdefault(page_of(module), []).extend(section)
    parts: dict[str, list[str]] = {title: [] for title in PARTS}
    for name, lines in pages.items():
        parts[part_of(name)].append(name)
        # the navigation beside each page has the parts only: with all modules it takes a third of the build
        page = [":orphan:", "", *_title(name, "="), *lines, ""]
        (folder / f"{name}.rst").write_text("\n".join(page), encoding="utf8")
    (folder / "ops.rst").write_text(_ops_page(), encoding="utf8")
    parts["Programs and ops"].append("ops")
    about = {name: (module.__doc__ or "").split("\n\n")[0] for name, module in loaded.items()}
    about["ops"] = "Every op type, with its slots and attributes."
    for number, (title, names) in enumerate(parts.items()):
        (folder / f"part{number}.md").write_text(_part(title, names, about), encoding="utf8")
    (folder / "index.rst").write_text(_index(len(parts)), encoding="utf8")


def page_of(module: ModuleType) -> str:
    """A module of fluid has a page of its own; those of a room share one."""
    name = module.__name__
    if hasattr(module, "__path__") or name.count(".") < 2 or (is_fluids(name) and "layers" in name):
        return name
    return name.rpartition(".")[0]


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _index(parts: int) -> str:
    listed = [f"   part{number}" for number in range(parts)]
    return "\n".join([*_title("API reference", "="), ".. toctree::", "   :maxdepth: 1", "", *listed, ""])


def _part(title: str, names: list[str], about: Mapping[str, str]) -> str:
    """The pages of a part in Markdown, each with the first sentence of its module."""
    rows = [f"- [`{name}`]({name}.rst): {' '.join(about[name].split())}" for name in names]
    return "\n".join([f"# {title}", "", *rows, ""])


def _section(module: ModuleType, entries: list[Entry], described: set[str]) -> list[str]:
    """A module's docstring, the things described here, and in fluid's modules links to the others; [] for a
    module of a room that adds nothing.
    """
    here = list({entry.full_name: entry for entry in entries if entry.full_name not in described}.values())
    described.update(entry.full_name for entry in here)
    name = module.__name__
    if not here and not (entries and is_fluids(name)):
        return []
    lines = [] if page_of(module) == name else _title(name, "-")
    lines += [f".. automodule:: {name}", "   :no-members:", "   :no-index:", ""]
    for entry in here:
        lines += _description(entry, with_members=name not in SHALLOW)
    elsewhere = [entry for entry in entries if entry not in here] if is_fluids(name) else []
    if elsewhere:
        lines += ["Other names, and what is described elsewhere:", ""]
        lines += [f"- :py:obj:`{entry.name} <{entry.full_name}>`" for entry in elsewhere]
        lines.append("")
    return lines


def _description(entry: Entry, with_members: bool) -> list[str]:
    if inspect.isclass(entry.thing):
        return [f".. autoclass:: {entry.full_name}", *([] if with_members else ["   :no-members:"]), ""]
    if inspect.isroutine(entry.thing):
        return [f".. autofunction:: {entry.full_name}", ""]
    return [f".. py:data:: {entry.full_name}", ""]


def _ops_page() -> str:
    """Every op type with its slots and attributes, from the registry."""
    types = sorted(registry.known_types())
    lines = [":orphan:", "", *_title("Op types", "="), OPS_INTRO, ""]
    lines += [".. list-table::", "   :header-rows: 1", "", "   * - op", "     - slots", "     - attributes"]
    for type_ in types:
        op = registry.get(type_)
        attrs = ", ".join(f"``{name}``" for name in op.attrs)
        lines += [f"   * - ``{type_}``", f"     - ``{_slots(op)}``", f"     - {attrs}"]
    return "\n".join([*lines, ""])


def _slots(op: registry.Op) -> str:
    """`X* Y? -> Out`, as an op is declared."""
    return f"{_side(op.inputs.values())} -> {_side(op.outputs.values())}".strip()


def _side(slots: Iterable[registry.Slot]) -> str:
    return " ".join(slot.name + "*" * slot.many + "?" * slot.optional for slot in slots)


def stage(folder: pathlib.Path) -> None:
    """Copy the pages, README as the first one with the groups of the index beside it, and write the
    reference.
    """
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns(HERE.name, "__pycache__")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=ignored)
    for name in PAGES:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    index = folder / "docs" / INDEX
    trees = "".join(map(_tree, groups(index.read_text(encoding="utf8"))))
    # a page of its own on GitHub; the site has its groups beside every page
    index.unlink()
    readme = (ROOT / "README.md").read_text(encoding="utf8").replace(f"(docs/{INDEX})", "(#documentation)")
    (folder / "index.md").write_text(readme + trees, encoding="utf8")
    for path in folder.rglob("*.md"):
        text = path.read_text(encoding="utf8")
        path.write_text(text.replace("](../README.md", "](../index.md"), encoding="utf8")
    write_reference(folder / "reference")


def _tree(group: PageGroup) -> str:
    """One group of the navigation; that of the reference begins with the pages made from docstrings."""
    pages = [os.path.normpath(f"docs/{page.file}").removesuffix(".md") for page in group.pages]
    titles = [
        f"{page.title.replace('`', '')} <{path}>" for page, path in zip(group.pages, pages, strict=True)
    ]
    made = ["reference/index"] if group.title == "Reference" else []
    head = f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {group.title}\n\n"
    return head + "\n".join([*made, *titles]) + "\n```\n"


def main(argv: list[str]) -> int:
    """Stage the pages and run Sphinx over them."""
    target = pathlib.Path(argv[-1] if argv else ROOT / "build" / "docs")
    if "--pages" in argv:
        stage(target)
        return 0
    from sphinx.cmd.build import build_main  # of the extra [docs]

    source = target.with_name(target.name + "-pages")
    stage(source)
    shutil.rmtree(target, ignore_errors=True)  # pages of modules that are gone would stay
    options = ["-c", str(HERE), "-b", "html", "-W", "--keep-going", "-q", "-j", "auto"]
    return build_main([*options, str(source), str(target)])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
