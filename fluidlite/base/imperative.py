"""Names that only imperative mode has: asked for anywhere, they are explained, not mistaken for others."""

from __future__ import annotations

from collections.abc import Iterable

from fluidlite.base.errors import did_you_mean

__all__ = ["STATIC_ONLY", "instead_of"]

STATIC_ONLY = "static graphs only: FluidLite runs programs, and has no imperative mode"

_NAMES = (
    "BackwardStrategy DataParallel ParameterList ProgramTranslator Sequential TracedLayer Tracer VarBase "
    "convert_to_static declarative dygraph_to_static_func enable_dygraph enable_imperative grad guard "
    "imperative jit load_dygraph prepare_context save_dygraph set_grad_enabled to_static to_variable"
)
_IMPERATIVE = frozenset(_NAMES.split())


def instead_of(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not there: why, or the nearest one that is."""
    return f"; {STATIC_ONLY}" if name in _IMPERATIVE else did_you_mean(name, known)
