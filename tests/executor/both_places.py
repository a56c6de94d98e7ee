"""A program's steps on the host and on a device, which must capture them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import fluidlite as fluid
from fluidlite.executor.run.cuda import CapturedStep


@dataclass(frozen=True)
class Runs:
    """The loss of each step on the host and on a device, and the device's plan as `explain` shows it."""

    host: list[float]
    device: list[float]
    text: str


def run_on_both(
    feeds: Sequence[dict[str, Any]], loss: Any, captured: bool = True, kernels: bool = False
) -> Runs:
    """Startup program, then the main program with each of the feeds; the device must have captured it, with
    portable `kernels` in it or without.
    """
    steps: list[CapturedStep] = []
    before = CapturedStep.__init__

    def made(self: CapturedStep, *args: Any) -> None:
        before(self, *args)
        steps.append(self)

    found: list[list[float]] = []
    with mock.patch.object(CapturedStep, "__init__", made):
        for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
            exe, scope = fluid.Executor(place), fluid.Scope()
            exe.run(fluid.default_startup_program(), scope=scope)
            found.append([exe.run(feed=feed, fetch_list=[loss], scope=scope)[0].item() for feed in feeds])
    text = exe.explain(feed=feeds[0], fetch_list=[loss], scope=scope, full=True)
    if captured:
        assert ("portable kernels" in text) == kernels
        assert [step.graph is not None for step in steps if step.runs == len(feeds)] == [True]
    return Runs(*found, text)
