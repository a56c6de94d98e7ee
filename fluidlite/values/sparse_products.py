"""SciPy's compiled products of sparse matrices with dense ones, which add to what they write."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["add_by_columns", "add_by_rows"]


@functools.cache
def _sparsetools() -> Any:
    """The functions alone, where they lie in a file of their own: `import scipy.sparse` takes a tenth of a
    second, nearly all of it for what is not needed here.
    """
    name = "scipy.sparse._sparsetools"
    package = importlib.util.find_spec("scipy")
    places = [] if package is None else list(package.submodule_search_locations or ())
    found = importlib.machinery.PathFinder.find_spec(name, [f"{place}/sparse" for place in places])
    if name in sys.modules or found is None or found.loader is None:
        return importlib.import_module(name)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def add_by_columns(out: Array, starts: Array, places: Array, factors: Array, X: Array) -> None:
    """out[places[k]] += factors[k] * X[i] for k from starts[i] up to starts[i + 1], for each row i of X.

    Arrays are of one dtype and without gaps; places are not checked.
    """
    _sparsetools().csc_matvecs(
        len(out), len(X), _width(X), starts, places, factors, X.reshape(-1), out.reshape(-1)
    )


def add_by_rows(out: Array, starts: Array, places: Array, factors: Array, X: Array) -> None:
    """out[i] += factors[k] * X[places[k]] for k from starts[i] up to starts[i + 1], for each row i of out.

    Arrays are of one dtype and without gaps; places are not checked.
    """
    _sparsetools().csr_matvecs(
        len(out), len(X), _width(X), starts, places, factors, X.reshape(-1), out.reshape(-1)
    )


def _width(X: Array) -> int:
    return int(np.prod(X.shape[1:]))
