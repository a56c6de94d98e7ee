"""NumPy or CuPy as a kernel sees it whose arrays are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.differentiation.arrays import GradientTape, Traced, call, is_traced, plain, plain_inside

__all__ = ["TracedModule"]

# fmt: off
_ALLOCATING = frozenset((
    "empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like", "eye",
    "array", "asarray", "ascontiguousarray",
))
# fmt: on


class TracedModule:
    """NumPy or CuPy for a kernel on a tape: what it allocates is traced."""

    def __init__(self, xp: Any, tape: GradientTape) -> None:
        self._xp = xp
        self._tape = tape
        self.level = tape.level
        self.linalg = _ModuleFunctions(xp.linalg, np.linalg)

    def __getattr__(self, name: str) -> Any:
        if name in _ALLOCATING:
            return self._allocating(name)
        own, numpy = getattr(self._xp, name), getattr(np, name, None)
        return _either(own, numpy) if callable(own) and not isinstance(own, type) else own

    def _allocating(self, name: str) -> Callable[..., Any]:
        def allocate(*args: Any, **kwargs: Any) -> Any:
            first: Any = args[0] if args else None
            if name in ("array", "asarray", "ascontiguousarray") and is_traced([first]):
                array = first if isinstance(first, Traced) else call(np.stack, (list(first),), {})
                dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
                return array if dtype is None else array.astype(dtype, copy=False)
            made = getattr(self._xp, name)(*map(plain_inside, args), **kwargs)
            return Traced(self._tape, made) if plain(made).dtype.kind == "f" else made

        return allocate


class _ModuleFunctions:
    """The functions of a module within NumPy or CuPy."""

    def __init__(self, own: Any, numpy: Any) -> None:
        self._own = own
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        return _either(getattr(self._own, name), getattr(self._numpy, name, None))


def _either(own: Any, numpy: Any) -> Any:
    """NumPy's function, which hands itself over, for traced arrays; otherwise the module's own."""
    if own is numpy or isinstance(own, np.ufunc):
        return own

    def function(*args: Any, **kwargs: Any) -> Any:
        found = numpy if is_traced([*args, *kwargs.values()]) else own
        return found(*args, **kwargs)

    return function
