"""Writes `cupy_names.json`: the public names of CuPy, which imports without a GPU. Run it in an environment
with CuPy.
"""

import json
import pathlib

import cupy


def public(thing: object) -> list[str]:
    """Names without a leading underscore."""
    return sorted(name for name in dir(thing) if not name.startswith("_"))


if __name__ == "__main__":
    found = {
        "version": cupy.__version__,
        "cupy": public(cupy),
        "ndarray": public(cupy.ndarray),
        "random": public(cupy.random),
    }
    pathlib.Path(__file__).with_name("cupy_names.json").write_text(
        json.dumps(found, indent=0), encoding="utf8"
    )
