"""Windows of signals in float64: symmetric ones of `size` samples (Harris, 1978)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["NEEDS_PARAMETERS", "WINDOWS"]


def _steps(size: int) -> Array:
    """Places of the samples, with 0 in the middle."""
    return np.arange(size) - (size - 1) / 2


def general_cosine(size: int, weights: Sequence[float]) -> Array:
    """A sum of cosines with these weights, of 0, 1, 2, ... periods."""
    places = np.linspace(-np.pi, np.pi, size)
    found: Array = np.sum([weight * np.cos(k * places) for k, weight in enumerate(weights)], axis=0)
    return found


def general_hamming(size: int, alpha: float) -> Array:
    """alpha plus 1 - alpha times a cosine."""
    return general_cosine(size, [alpha, 1.0 - alpha])


def hamming(size: int) -> Array:
    """0.54 plus 0.46 times a cosine."""
    return general_hamming(size, 0.54)


def hann(size: int) -> Array:
    """Half of 1 plus a cosine."""
    return general_hamming(size, 0.5)


def blackman(size: int) -> Array:
    """Three cosines, 0.42, 0.5 and 0.08."""
    return general_cosine(size, [0.42, 0.50, 0.08])


def cosine(size: int) -> Array:
    """Half a period of a sine."""
    return np.sin(np.pi / size * (np.arange(size) + 0.5))


def triang(size: int) -> Array:
    """A triangle that is not 0 at its ends."""
    return 1 - np.abs(_steps(size)) / ((size + 1) // 2 if size % 2 else size / 2)


def bohman(size: int) -> Array:
    """A triangle times a cosine, plus a sine."""
    places = np.abs(np.linspace(-1, 1, size)[1:-1])
    inside = (1 - places) * np.cos(np.pi * places) + np.sin(np.pi * places) / np.pi
    return np.concatenate([[0.0], inside, [0.0]])


def tukey(size: int, alpha: float = 0.5) -> Array:
    """A window of ones with half cosines at both ends, which are the part `alpha` of it."""
    if alpha <= 0:
        return np.ones(size)
    apart = np.minimum(np.arange(size), np.arange(size)[::-1]) / (size - 1)
    return 0.5 * (1 - np.cos(np.pi * np.minimum(2 * apart / alpha, 1)))


def gaussian(size: int, std: float) -> Array:
    """A normal density that is 1 in the middle."""
    return np.exp(-0.5 * (_steps(size) / std) ** 2)


def general_gaussian(size: int, p: float, sig: float) -> Array:
    """exp(-|x / sig| ** (2 p) / 2): for p 1 a normal density, for 0.5 an exponential."""
    return np.exp(-0.5 * np.abs(_steps(size) / sig) ** (2 * p))


def exponential(size: int, center: float | None = None, tau: float = 1.0) -> Array:
    """exp(-|x - center| / tau), around the middle by default."""
    middle = (size - 1) / 2 if center is None else center
    return np.exp(-np.abs(np.arange(size) - middle) / tau)


def taylor(size: int, nbar: int = 4, sll: float = 30, norm: bool = True) -> Array:
    """Cosines whose `nbar` - 1 side lobes next to the main one are `sll` decibels below it (Taylor, 1955);
    `norm`: 1 in the middle.
    """
    ratio = np.arccosh(10 ** (sll / 20)) / np.pi
    spread = nbar**2 / (ratio**2 + (nbar - 0.5) ** 2)
    orders = np.arange(1, nbar)
    weights = [_taylor_weight(int(order), orders, ratio, spread) for order in orders]

    def at(places: Array | float) -> Array:
        waves = np.cos(2 * np.pi * orders[:, None] * (places - size / 2 + 0.5) / size)
        found: Array = 2 * np.dot(weights, waves) + 1
        return found

    window = at(np.arange(size))
    return window / at((size - 1) / 2) if norm else window


def _taylor_weight(order: int, orders: Array, ratio: float, spread: float) -> float:
    others = orders[orders != order]
    above = np.prod(1 - order**2 / spread / (ratio**2 + (orders - 0.5) ** 2))
    return float((-1) ** (order + 1) * above / (2 * np.prod(1 - order**2 / others**2)))


WINDOWS: dict[str, Callable[..., Array]] = {
    made.__name__: made
    for made in (
        hamming,
        hann,
        gaussian,
        general_gaussian,
        exponential,
        triang,
        bohman,
        blackman,
        cosine,
        tukey,
        taylor,
        general_cosine,
        general_hamming,
    )
}
NEEDS_PARAMETERS = frozenset(["gaussian", "exponential"])
"""Windows that 2.6.2 refuses without parameters by a message of its own."""
