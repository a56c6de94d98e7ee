"""Writes fluidlite/base/op_index.py, the family that declares each op and lists of ops by a fact, and
executor/compile/rule_index.py, the module with the lowering rule of each op that has one.

    python tests/house/op_index.py

The registry and plans look there which module to import for an op. Lists that users may ask for, such as
those of mixed precision, are gathered from fields of the ops: no program imports them all. `test_op_index.py`
holds the files against the families.
"""

from __future__ import annotations

import graphlib
import importlib
import pathlib
import sys
import textwrap

from modules import imports, modules

from fluidlite.base import families, registry
from fluidlite.executor.compile import emitter

ROOM = "fluidlite.ops."
RULES_ROOM = "fluidlite.executor.compile.lowering."
# of the package that this process imports, which may be a copy
INDEX = pathlib.Path(families.__file__).resolve().with_name("op_index.py")
ROOT = INDEX.parents[2]
RULE_INDEX = pathlib.Path(emitter.__file__).resolve().with_name("rule_index.py")
# fields of words, of which programs ask for all ops that have one
FIELDS = ("amp", "amp_fp16", "amp_bf16")
HEAD = '''\
"""The family that declares each op, a module below `fluidlite.ops`; a gradient op stands with its op."""

# written by tests/house/op_index.py
FAMILIES = {
'''


RULES_HEAD = '''\
"""The module below `fluidlite.executor.compile.lowering` that declares the rule of each op that has one."""

# written by tests/house/op_index.py
RULES = {
'''


def modules_of(room: str) -> list[str]:
    """The modules of a room, each behind those that it imports: what is new after an import is its own."""
    below = {name: set[str]() for name in modules(ROOT) if name.startswith(room)}
    for found in imports(ROOT):
        if found.importer in below and found.imported in below:
            below[found.importer].add(found.imported)
    packages = {name.rpartition(".")[0] for name in below}
    order = graphlib.TopologicalSorter({name: sorted(needs) for name, needs in sorted(below.items())})
    return [name for name in order.static_order() if name not in packages]


def declared() -> dict[str, list[str]]:
    """Family -> the types of its ops, without gradient ops that stand with their op. To be called before
    anything else imports a family.
    """
    found: dict[str, list[str]] = {}
    before: set[str] = set()
    for module in modules_of(ROOM):
        importlib.import_module(module)
        types = set(registry._OPS)
        found[module.removeprefix(ROOM)] = sorted(_own(types - before))
        before = types
    return {family: types for family, types in sorted(found.items()) if types}


def declared_rules() -> dict[str, list[str]]:
    """Module -> the types of the ops whose rules it declares. To be called before any of them is imported."""
    found: dict[str, list[str]] = {}
    before: set[str] = set()
    for module in modules_of(RULES_ROOM):
        importlib.import_module(module)
        types = set(emitter.rules())
        found[module.removeprefix(RULES_ROOM)] = sorted(types - before)
        before = types
    return {module: types for module, types in sorted(found.items()) if types}


def _own(types: set[str]) -> set[str]:
    """The types without gradients, of any order, of one of them."""
    own = set(types)
    for op_type in types:
        stem = op_type
        while stem.endswith("_grad"):
            stem = stem.removesuffix("_grad")
            if stem in types:
                own.discard(op_type)
    return own


def text() -> str:
    """The text of the index."""
    families = "".join(_row(family, " ".join(types)) for family, types in declared().items())
    facts = "".join(_row(fact, " ".join(types)) for fact, types in sorted(facts_of_ops().items()))
    return f"{HEAD}{families}}}\n# field and word -> the ops that have it\nFACTS = {{\n{facts}}}\n"


def rules_text() -> str:
    """The text of the index of rules."""
    rows = "".join(_row(module, " ".join(types)) for module, types in declared_rules().items())
    return f"{RULES_HEAD}{rows}}}\n"


def facts_of_ops() -> dict[str, list[str]]:
    """Field and word -> the types of the ops that have the word in the field."""
    found: dict[str, list[str]] = {}
    for op_type in registry.known_types():
        op = registry.get(op_type)
        for field in FIELDS:
            for word in getattr(op, field).split():
                found.setdefault(f"{field} {word}", []).append(op_type)
    return found


def _row(family: str, types: str) -> str:
    if len(f'    "{family}": "{types}",') <= 110:
        return f'    "{family}": "{types}",\n'
    # the formatter joins what fits on one line
    width = 100 if len(types) <= 100 else 99
    lines = textwrap.wrap(types, width, break_long_words=False, break_on_hyphens=False)
    quoted = [f'        "{line} "\n' for line in lines[:-1]] + [f'        "{lines[-1]}"\n']
    return f'    "{family}": (\n{"".join(quoted)}    ),\n'


if __name__ == "__main__":
    for index, written in ((INDEX, text()), (RULE_INDEX, rules_text())):
        index.write_text(written, encoding="utf8")
        sys.stdout.write(f"{index}\n")
