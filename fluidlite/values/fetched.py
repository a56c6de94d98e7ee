"""Fetched arrays, which old scripts print with `"%f" % loss`: one number counts as a number whatever its
shape.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

__all__ = ["Fetched", "as_fetched"]


class Fetched(np.ndarray[Any, Any]):
    """An array that `float`, `int` and formatting take for a number when it has one element.

    Fluid gives a loss the shape [1], and NumPy from 2.4 on makes a number of zero-dimensional arrays only.
    What is computed or cut from such an array is one again; it prints, pickles and compares as the plain
    array does.
    """

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Results without dimensions are NumPy's scalars, as they are for plain arrays."""
        return array[()] if return_scalar or array.ndim == 0 else array.view(Fetched)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return np.asarray(self).__reduce_ex__(protocol)

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def as_fetched(array: Any) -> Any:
    """The same array as `Fetched`."""
    return np.asarray(array).view(Fetched)
