"""Thresholds at which values are cut off before they are quantised: large ones cost resolution."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["entropy_threshold", "tail_threshold"]

BINS = 2048
FIRST = int((BINS - 1) * 0.7)  # thresholds below 70 % of the range are not looked at


def entropy_threshold(magnitudes: Any, levels: int = 255) -> float:
    """The threshold after which so many levels change the distribution of magnitudes least, by their
    Kullback-Leibler divergence (Migacz, 8-bit inference with TensorRT, 2017).

    A histogram is cut off behind each of its bins in turn. P is what is left, with all that was cut off in
    its last bin; Q has the bins of each level added up, spread evenly over those that P has anything in.
    """
    counts, edges = np.histogram(magnitudes, bins=BINS, range=(np.min(magnitudes), np.max(magnitudes)))
    best, smallest = 0, np.inf
    for kept in range(FIRST, BINS):
        if counts[kept - 1] == 0:
            continue
        divergence = _divergence(counts, kept, levels)
        if best == 0 or divergence < smallest:
            best, smallest = kept, divergence
    if best == 0:  # nothing is that large: cut off behind the last bin that has anything in it
        best = int(np.flatnonzero(counts[: FIRST + 1]).max(initial=0))
    return float((best + 0.5) * (edges[1] - edges[0]))


def _divergence(counts: Any, kept: int, levels: int) -> float:
    """The divergence of the distribution that is cut off behind `kept` bins from itself after rounding."""
    reference = counts[:kept].astype("float64")
    reference[-1] += counts[kept:].sum()
    level = np.minimum(np.arange(kept) // (kept // levels), levels - 1)
    present = reference > 0
    totals = np.bincount(level, weights=counts[:kept], minlength=levels)
    spread = totals / np.maximum(np.bincount(level, weights=present, minlength=levels), 1)
    p, q = reference[present], spread[level[present]]
    difference = np.log(q.sum() * p) - np.log(p.sum() * q)
    return float((p * difference).sum() / p.sum())


def tail_threshold(values: Any, rate: float, bins: int = 5000) -> float:
    """The magnitude that a share of at most `rate` of all values exceeds, by a histogram."""
    counts, edges = np.histogram(np.abs(values), bins=bins, range=(0, np.abs(values).max()))
    share = np.cumsum(counts) / counts.sum()
    return float(edges[int(np.argmax(share >= 1.0 - rate)) + 1])
