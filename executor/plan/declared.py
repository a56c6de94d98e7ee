"""Base classes by which objects of plans declare what may be done with their calls."""

from __future__ import annotations

__all__ = ["HostCheck", "OnlyComputes"]


class OnlyComputes:
    """An object whose call gives a value and has no effect: it may run in a branch that is not taken."""


class HostCheck:
    """A check of values that needs them on the host: plans on a device leave it out, since it would stop the
    stream.
    """
