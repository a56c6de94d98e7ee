"""Writes `fluidlite/cli/scripts/elsewhere.txt` from the modules of PaddlePaddle 2.6.2 and those of FluidLite.

python tests/house/elsewhere.py
"""

from __future__ import annotations

import gzip
import importlib
import json
import pathlib
import warnings
from collections import defaultdict
from types import ModuleType

from fluidlite.cli.scripts.elsewhere import home_of

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ROOT / "tests" / "golden" / "module_names_2x.json.gz"
TARGET = ROOT / "fluidlite" / "cli" / "scripts" / "elsewhere.txt"
# 2.6.2 calls fluid so: the whole of it is there under one name
LEFT_OUT = ("paddle.base", "paddle.pir", "paddle.decomposition", "paddle.incubate.autograd")

# functions and classes of fluid that 2.x kept under paths of its own: FluidLite has them in fluid's modules
KEPT = {
    "paddle.distributed.communicator": ("paddle.fluid.communicator",),
    "paddle.distributed.distribute_lookup_table": ("paddle.fluid.distribute_lookup_table",),
    "paddle.distributed.transpiler.collective": ("paddle.fluid.transpiler.collective",),
    "paddle.distributed.transpiler.details.vars_distributed": ("paddle.fluid.transpiler.details",),
    "paddle.distributed.transpiler.distribute_transpiler": (
        "paddle.fluid.transpiler",
        "paddle.fluid.transpiler.distribute_transpiler",
    ),
    "paddle.distributed.transpiler.memory_optimization_transpiler": ("paddle.fluid.transpiler",),
    "paddle.incubate.layers": ("paddle.fluid.contrib.layers", "paddle.fluid.layers"),
    "paddle.incubate.layers.nn": ("paddle.fluid.contrib.layers", "paddle.fluid.layers"),
    "paddle.incubate.optimizer": ("paddle.fluid.optimizer",),
    "paddle.incubate.optimizer.lars_momentum": ("paddle.fluid.optimizer",),
    "paddle.incubate.optimizer.pipeline": ("paddle.fluid.optimizer",),
    "paddle.incubate.optimizer.recompute": ("paddle.fluid.optimizer",),
    "paddle.nn.clip": ("paddle.fluid.clip", "paddle.fluid.layers"),
    "paddle.nn.initializer.assign": ("paddle.fluid.initializer",),
    "paddle.nn.initializer.constant": ("paddle.fluid.initializer",),
    "paddle.nn.initializer.kaiming": ("paddle.fluid.initializer",),
    "paddle.nn.initializer.normal": ("paddle.fluid.initializer",),
    "paddle.nn.initializer.uniform": ("paddle.fluid.initializer",),
    "paddle.nn.initializer.xavier": ("paddle.fluid.initializer",),
    "paddle.optimizer.lr": ("paddle.fluid.layers",),
    "paddle.regularizer": ("paddle.fluid.regularizer",),
    "paddle.static.amp.amp_nn": ("paddle.fluid.contrib.mixed_precision.amp_nn",),
    "paddle.static.io": ("paddle.fluid.io",),
    "paddle.static.log_helper": ("paddle.fluid.log_helper",),
    "paddle.static.nn": ("paddle.fluid.contrib.layers",),
    "paddle.static.nn.common": ("paddle.fluid.contrib.layers", "paddle.fluid.layers"),
    "paddle.static.nn.control_flow": ("paddle.fluid.layers", "paddle.fluid.layers.control_flow"),
    "paddle.static.nn.sequence_lod": ("paddle.fluid.layers",),
    "paddle.static.quantization.post_training_quantization": ("paddle.fluid.contrib.slim.quantization",),
    "paddle.static.quantization.quantization_pass": ("paddle.fluid.contrib.slim.quantization",),
    "paddle.tensor.creation": ("paddle.fluid.layers",),
    "paddle.tensor.random": ("paddle.fluid.layers",),
}


def ours(name: str) -> ModuleType | None:
    """FluidLite's module in the place of 2.6.2's; None where it has no file."""
    try:
        return importlib.import_module(home_of(name))
    except ImportError:
        return None


def home_of_module(module: str, name: str, path: str) -> str | None:
    """The package of the module `path` that a module has under a name of its own, where FluidLite has it."""
    home, _, last = path.rpartition(".")
    # what a module imports for itself is no name of it, but packages show modules
    if module.count(".") > 1 or ours(module) is None:
        return None
    return home if path != f"{module}.{name}" and last == name and ours(path) is not None else None


def is_hidden(module: str) -> bool:
    """True where a function or class of the package has the module's name: an import of the module would take
    its place.
    """
    package, _, name = module.rpartition(".")
    found = getattr(ours(package), name, None)
    return found is not None and not isinstance(found, ModuleType)


def kept_at(module: str, name: str, own: bool) -> str | None:
    """The module of fluid that has a name of one of 2.x's; where that only imports the name, a public one."""
    kept = KEPT.get(module, ())
    return next(
        (each for each in kept if name in dir(ours(each)) or (own and hasattr(ours(each), name))), None
    )


Places = dict[int, list[tuple[str, str]]]


def homes_of(module: str, names: dict[str, int | str], file: ModuleType | None, places: Places) -> list[str]:
    """A line for each module of FluidLite that has some of the names which `file` lacks."""
    homes: dict[str, list[str]] = defaultdict(list)
    for name, number in names.items():
        if file is not None and name in dir(file):
            continue
        if isinstance(number, str):
            home = home_of_module(module, name, number)
        else:
            # packages below paddle itself show what they import, such as paddle.framework.ParamAttr
            shown = abs(number) if module.count(".") == 1 else number
            found = [home for home, other in places.get(shown, ()) if other == name]
            home = min(found, key=lambda each: (len(each), each), default=None)
            home = home or kept_at(module, name, number > 0)
        if home is not None:
            homes[home].append(name)
    return [f"  {home}: {' '.join(sorted(each))}" for home, each in sorted(homes.items())]


def written() -> str:
    """The text of the file."""
    warnings.simplefilter("ignore")
    recorded = json.loads(gzip.decompress(NAMES.read_bytes()))["modules"]
    files = {name: ours(name) for name in recorded}
    # negative numbers are those of names that a module only imports
    places: Places = defaultdict(list)
    for module, names in recorded.items():
        for name, number in names.items():
            if not isinstance(number, str) and name in dir(files[module]) and files[module] is not None:
                places[abs(number)].append((module, name))
    lines = []
    for module, names in recorded.items():
        if not module.startswith(LEFT_OUT) and (files[module] is not None or not is_hidden(module)):
            homes = homes_of(module, names, files[module], places)
            lines += [module, *homes] if homes else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf8")
