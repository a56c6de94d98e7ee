"""The coefficients of `fluidlite.executor.fast.loops.functions`, made anew: run it and compare.

Least squares on a dense set of points, each weighted by its error of the round before, until the largest
relative errors are equal (Lawson's way to a minimax fit).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

Array = np.ndarray[Any, np.dtype[np.float64]]


def points(low: float, high: float, count: int = 3000) -> Array:
    """Chebyshev's points of an interval."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return (low + high) / 2 + (high - low) / 2 * np.cos(angles)


def polynomial(x: Array, y: Array, weight: Array, degree: int) -> Array:
    """Coefficients of the polynomial in x closest to y."""
    powers = np.stack([x**power for power in range(degree + 1)], 1)
    share = np.ones_like(x)
    best = (np.inf, np.zeros(degree + 1))
    for _ in range(200):
        scale = np.sqrt(share) * weight
        found = np.linalg.lstsq(powers * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs((powers @ found - y) * weight)
        best = min(best, (error.max(), found), key=lambda pair: pair[0])
        share = share * error / (share * error).sum()
    return best[1]


def fraction(function: Callable[[Array], Array], end: float, degree: int) -> tuple[Array, Array]:
    """P and Q of x * P(x * x) / Q(x * x), both of one degree, closest to an odd function up to `end`."""
    x = points(1e-6, end, 4000)
    y = function(x)
    powers = np.stack([(x * x) ** power for power in range(degree + 1)], 1)
    system = np.hstack([x[:, None] * powers, -y[:, None] * powers[:, 1:]])
    size = np.abs(system).max(0)
    below = np.ones_like(x)
    share = np.ones_like(x)
    best = (np.inf, powers[0], powers[0])
    for _ in range(400):
        scale = np.sqrt(share) / (y * below)
        found = np.linalg.lstsq(system / size * scale[:, None], y * scale, rcond=None)[0] / size
        above = found[: degree + 1]
        under = np.concatenate([[1.0], found[degree + 1 :]])
        below = powers @ under
        error = np.abs(x * (powers @ above) / below / y - 1)
        best = min(best, (error.max(), above, under), key=lambda triple: triple[0])
        share = share * (error + 1e-12) / (share * (error + 1e-12)).sum()
    return best[1], best[2]


def main() -> None:
    """Print all of them."""
    half = np.log(2) / 2 * 1.0005
    r = points(-half, half, 2000)
    r = r[np.abs(r) > 1e-3]
    print("exp", polynomial(r, (np.expm1(r) - r) / r**2, r**2 / np.exp(r), 4).tolist())
    f = points(np.sqrt(0.5) - 1, np.sqrt(2) - 1)
    f = f[np.abs(f) > 1e-4]
    print("log", polynomial(f, (np.log1p(f) - f + f * f / 2) / f**3, np.abs(f**3 / np.log1p(f)), 7).tolist())
    print("tanh", *(part.tolist() for part in fraction(np.tanh, 9.02, 4)))
    print("erf", *(part.tolist() for part in fraction(special.erf, 4.0, 5)))


if __name__ == "__main__":
    main()
