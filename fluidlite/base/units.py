"""Sizes and times as people read them."""

from __future__ import annotations

__all__ = ["amount", "seconds"]

_STEPS = ("B", "kB", "MB", "GB", "TB", "PB")


def amount(size: float) -> str:
    """Bytes: `4.01 MB`."""
    step = 0
    # from here on three digits round up to 1e+03
    while abs(size) >= 999.5 and step < len(_STEPS) - 1:
        size = size / 1000
        step = step + 1
    return f"{size:.0f} B" if step == 0 else f"{size:.3g} {_STEPS[step]}"


def seconds(time: float) -> str:
    """A duration: `12.3 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if time * factor >= 1:
            return f"{time * factor:.3g} {unit}"
    return f"{time * 1e6:.3g} us"
