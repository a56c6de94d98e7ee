"""The modules of PaddlePaddle 2.6.2 with their public names, and which of these are one object.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2:

    python -m golden.dump_module_names_2x

writes `module_names_2x.json.gz`. "modules" are module -> name -> number; two names with one number are one
object. Names that a module only imports have a negative number; a module among the names has its own name as
number. "inputs" are the parameters of `forward` of each layer in `paddle.nn`.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import pathlib
import pkgutil
import sys
import warnings
from types import ModuleType

PATH = pathlib.Path(__file__).parent / "module_names_2x.json.gz"
LEFT_OUT = ("libpaddle", ".tests", "proto", "cinn", "._", ".gast", "_ops")


def modules() -> dict[str, ModuleType]:
    """All modules of the package that can be imported."""
    import paddle

    for info in pkgutil.walk_packages(paddle.__path__, "paddle.", onerror=lambda name: None):
        if not any(word in info.name for word in LEFT_OUT):
            try:
                importlib.import_module(info.name)
            except BaseException as error:
                print(info.name, type(error).__name__, file=sys.stderr)
    found = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "paddle"}
    return {
        name: module
        for name, module in sorted(found.items())
        if isinstance(module, ModuleType) and not any(word in name for word in LEFT_OUT)
    }


def inputs_of_layers() -> dict[str, list[str]]:
    """Layer -> the names of its inputs."""
    import paddle

    layers = {name: value for name, value in vars(paddle.nn).items() if inspect.isclass(value)}
    return {
        name: list(inspect.signature(value.forward).parameters)[1:]
        for name, value in layers.items()
        if issubclass(value, paddle.nn.Layer)
    }


def main() -> None:
    """Write the names."""
    warnings.simplefilter("ignore")
    numbers: dict[int, int] = {}
    found: dict[str, dict[str, int | str]] = {}
    for name, module in modules().items():
        listed = getattr(module, "__all__", ())
        names: dict[str, int | str] = {}
        for key, value in sorted(vars(module).items()):
            home = str(getattr(value, "__module__", ""))
            is_code = (inspect.isfunction(value) or inspect.isclass(value)) and home.startswith("paddle")
            if key.startswith("_"):
                continue
            if isinstance(value, ModuleType) and value.__name__.startswith("paddle."):
                names[key] = value.__name__
            elif is_code or key in listed:
                number = numbers.setdefault(id(value), len(numbers) + 1)
                names[key] = number if key in listed or home == name else -number
        found[name] = names
    text = json.dumps({"modules": found, "inputs": inputs_of_layers()})
    PATH.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
