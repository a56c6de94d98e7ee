"""The error of a kernel."""

from __future__ import annotations

__all__ = ["KernelFault"]


class KernelFault(AssertionError):
    """A mistake in a kernel, found by a compiler, a sanitizer or by comparing two orders of threads."""
