"""Writes docs/NAMES.md: every public name of fluid 1.8.5's static graph, and the names that 2.x scripts use.

    python tests/house/names_page.py

`tests/golden/names.json.gz` has the names: `public` (module -> its `__all__`, or what it defines), `imported`
(module -> names of other modules of fluid that could be read off it), `lists` (2.x names by module), `door`
(module of 2.6.2 -> its `__all__`, by `tests/golden/dump_names_2x.py`).
"""

from __future__ import annotations

import gzip
import importlib
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from fluidlite.base import registry
from fluidlite.cli.scripts.elsewhere import ElsewhereModule, is_elsewhere
from fluidlite.ir.variable import VARIABLE_NAMES
from fluidlite.paddle.tensor.names import METHODS
from fluidlite.paddle.variable import Tensor

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "NAMES.md"
RECORDED = ROOT / "tests" / "golden" / "names.json.gz"

# reason -> starts of names of 2.6.2
_OF_2X = {
    "fails in 2.6.2's programs": "gcd lcm linalg.corrcoef linalg.cov",
    "is for complex numbers, which have no gradients here": (
        "as_complex as_real complex fft. linalg.eig linalg.eigvals polar signal."
    ),
    "runs on CUDA devices alone in 2.6.2": ("incubate.nn. nn.functional.sparse_attention"),
    "names kernels of Paddle's library, which are not here": "inference._get_phi_kernel_name",
    "steers IPU devices": "static.Ipu static.ipu_ static.set_ipu",
    "runs on Kunlun devices": "incubate.xpu.",
    "is a step of 2.6.2's own, which no script calls": "autograd.ir_backward. distributed.ps.",
    "a module of this name would take the place of the function": "text.viterbi_decode.",
    "describes a variable to automatic parallelism and to passes": (
        "Tensor.attr Tensor.dist_attr Tensor.create_"
    ),
    "drives parameter servers in C++ and their stores": (
        "distributed.fleet.utils.DistributedInfer incubate.distributed."
    ),
}
# (start of a name with its module, reason), the first that fits counts
REASONS = (
    ("fluid.contrib.slim.quantization.MKLDNN", "steers MKL-DNN, which is not here"),
    ("fluid.contrib.slim.quantization.Qat", "makes programs for MKL-DNN, which is not here"),
    ("fluid.contrib.slim.quantization.mkldnn", "steers MKL-DNN, which is not here"),
    ("fluid.contrib.slim.quantization.qat", "makes programs for MKL-DNN, which is not here"),
    ("fluid.core.ops", "calls ops in imperative mode, and static graphs are what there is"),
    ("fluid.core.", "a part of Paddle's compiled core that static programs do not ask for"),
    ("fluid.framework.ComplexVariable", "belongs to imperative mode"),
    ("fluid.ComplexVariable", "belongs to imperative mode"),
    ("fluid.data.data", "`fluid.data` is the function itself, and cannot be a module besides"),
    ("fluid.dataloader.dataloader_iter.ParentWatchDog", "watches worker processes, which are threads here"),
    ("fluid.multiprocess_utils.", "cleans up after worker processes, which are threads here"),
    ("fluid.incubate.fleet.parameter_server.pslib", "drives Paddle's closed parameter server (pslib)"),
    ("fluid.op.", "makes ops of Paddle's oldest C++ networks"),
    ("fluid.net_drawer.", "a step of drawing; `draw_graph` draws"),
    ("fluid.debugger.repr_", "prints one part of a message; `str(program)` prints all"),
    *((f"paddle.{name}", why) for why, names in _OF_2X.items() for name in names.split()),
    ("", "not there yet"),
)


def recorded() -> dict[str, Any]:
    """The recorded names."""
    with gzip.open(RECORDED, "rt", encoding="utf8") as source:
        found: dict[str, Any] = json.load(source)
    return found


def exists(module: str, name: str) -> bool:
    """True if the name can be read off our module of that name."""
    home = _home(module)
    if module == "paddle.Tensor":
        return name in METHODS or hasattr(Tensor, name) or name in VARIABLE_NAMES
    if is_elsewhere(module) and name in dir(ElsewhereModule(module)):
        return True
    try:
        value = importlib.import_module(home)
    except ImportError:
        # a class or a nested namespace may stand where Paddle has a module
        outer, _, inner = home.rpartition(".")
        try:
            value = getattr(importlib.import_module(outer), inner)
        except (ImportError, AttributeError):
            return False
    return hasattr(value, name)


def _home(module: str) -> str:
    if module == "fluid" or module.startswith("fluid."):
        return "fluidlite" + module[len("fluid") :]
    return "fluidlite." + module  # paddle.nn is fluidlite.paddle.nn


def reason(module: str, name: str) -> str:
    """Why a name is not there."""
    full = f"{module}.{name}"
    return next(why for start, why in REASONS if full.startswith(start))


def _section(module: str, names: Iterable[str]) -> Iterator[str]:
    names = list(names)
    missing = [name for name in names if not exists(module, name)]
    there = [name for name in names if name not in missing]
    yield f"### {module}"
    yield ""
    if there:
        count = f"All {len(names)}" if not missing else f"{len(there)} of {len(names)}"
        yield f"{count}: {' '.join(f'`{name}`' for name in there)}"
        yield ""
    if missing:
        yield "| not there | why |"
        yield "|---|---|"
        yield from (f"| `{name}` | {reason(module, name)} |" for name in missing)
        yield ""


def _derivatives() -> list[str]:
    """Which op types have gradients of gradients, by the registry."""
    found = {name: registry.get(name) for name in registry.known_types()}
    firsts = {name: op for name, op in found.items() if op.differentiable and "_grad" not in name}
    gradients = {name: registry.find(op.grad_type) for name, op in firsts.items()}
    refused = {name: op.opaque for name, op in gradients.items() if op is not None and op.opaque}
    composed = [name for name, op in gradients.items() if op is None]
    derived = [name for name in gradients if name not in refused and name not in composed]
    sparse = [name for name in derived if (op := gradients[name]) is not None and op.sparse]
    return [
        "## Gradients of gradients",
        "",
        "By type of op, as `gradients` of a gradient finds them, in programs of 1.8 and 2.x. The gradient op",
        "of a gradient op is derived from its kernel, and that one's again, to any order. Where numbers are",
        "complex, it is refused.",
        "",
        "| order | op types |",
        "|---|---|",
        f"| any | {_listed(derived)} |",
        f"| any, as their gradients are made of other ops | {_listed(composed)} |",
        f"| one more is refused with `is_sparse`, as selected rows have none | {_listed(sparse)} |",
        *(f"| one more is refused, as {reason} | {_listed([name])} |" for name, reason in refused.items()),
        "",
    ]


def _listed(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def page() -> str:
    """The text of docs/NAMES.md."""
    found = recorded()
    public, imported, lists, door = (found[key] for key in ("public", "imported", "lists", "door"))
    lines = [
        "# Names",
        "",
        "Every public name of the static graph of fluid 1.8.5, the names that 2.x scripts use, and the",
        "public names of 2.6.2's modules for programs: those that are there, and those that are not, with",
        "the reason. `python tests/house/names_page.py` writes this page, and a test holds it against the",
        "modules. The names of imperative mode (`fluid.dygraph`), of pslib and of C++ trainers can be",
        "imported and are refused when they are used; so are op types that",
        "`fluidlite/base/refused_ops.py` lists.",
        "",
        "| names | there |",
        "|---|---|",
        f"| public names of fluid 1.8.5's modules | {_share(public)} |",
        f"| names that its modules had imported from each other | {_share(imported)} |",
        f"| names that 2.x scripts use | {_share(lists)} |",
        f"| public names of 2.6.2's modules | {_share(door)} |",
        "",
        "## Public names of fluid 1.8.5",
        "",
    ]
    for module in sorted(public):
        if public[module]:
            lines += _section(module, public[module])
    lines += ["## Names that 2.x scripts use", ""]
    for module in sorted(lists):
        lines += _section(module, sorted(lists[module]))
    lines += ["## Public names of 2.6.2", ""]
    for module in sorted(door):
        lines += _section(module, door[module])
    lines += _derivatives()
    lines += [
        "## Names that modules had imported",
        "",
        "Programs read them off modules that only used them, such as `fluid.layers.Variable`. These are not",
        "there:",
        "",
    ]
    for module in sorted(imported):
        missing = [name for name in imported[module] if not exists(module, name)]
        if missing:
            lines.append(f"- {module}: {' '.join(f'`{name}`' for name in missing)}")
    return "\n".join(lines).rstrip() + "\n"


def _share(modules: dict[str, list[str]]) -> str:
    pairs = [(module, name) for module, names in modules.items() for name in names]
    return f"{sum(exists(*pair) for pair in pairs)} of {len(pairs)}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(page(), encoding="utf8")
