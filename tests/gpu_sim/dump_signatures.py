"""Writes `signatures.json`: the functions of CuPy with their parameters, and its element-wise functions. CuPy
imports without a GPU: run this in an environment with CuPy.
"""

import inspect
import json
import pathlib

import cupy


def parameters(function: object) -> list[list[object]] | None:
    """[name, kind, has a default] of each parameter; None where CuPy does not say."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[each.name, int(each.kind), each.default is not each.empty] for each in found]


def main() -> None:
    """Write the file."""
    public = {name: getattr(cupy, name) for name in dir(cupy) if not name.startswith("_")}
    is_ufunc = {name: isinstance(thing, cupy.ufunc) for name, thing in public.items()}
    found = {
        "version": cupy.__version__,
        "ufuncs": sorted(name for name in public if is_ufunc[name]),
        "functions": {
            name: parameters(thing)
            for name, thing in sorted(public.items())
            if callable(thing)
            and not inspect.isclass(thing)
            and not is_ufunc[name]
            and parameters(thing) is not None
        },
        "methods": {
            name: parameters(getattr(cupy.ndarray, name))
            for name in sorted(dir(cupy.ndarray))
            if not name.startswith("_") and callable(getattr(cupy.ndarray, name))
        },
    }
    path = pathlib.Path(__file__).with_name("signatures.json")
    path.write_text(json.dumps(found, indent=None, separators=(",", ":")) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
