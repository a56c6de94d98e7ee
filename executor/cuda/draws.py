"""Random masks, drawn on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.executor.cuda.kernel import CudaKernel, element_grid
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.ops.kernels.minstd import minstd_uniform

__all__ = ["DeviceKeptMask"]

_FILES = ("blocks.cuh", "dropout.cu")


class DeviceKeptMask(OwnObject):
    """mask(out): True where a number drawn from [0, 1) is not less than `probability`.

    With a `seed` the numbers are those of Paddle's CPU kernel, the same at each call. Without one, the run's
    source of numbers gives a seed when the plan is bound, and a counter in the device's memory the step: a
    captured step draws new numbers each time, without the host.
    """

    def __init__(self, xp: Any, random: Any, count: int, probability: float, seed: int | None) -> None:
        self.xp = xp
        self.count = count
        self.probability = np.float32(probability)
        self.known: Any = None
        if seed is not None:
            self.known = xp.asarray(minstd_uniform(seed, count) >= self.probability)
            return
        self.state = xp.asarray(np.array([random.integers(1 << 63), 0]))
        self.draw, self.advance = (
            CudaKernel(xp, name, _FILES, "float32") for name in ("kept_mask", "next_step")
        )
        # a thread draws four numbers at once
        self.grid = element_grid(-(-count // 4))

    def __call__(self, out: Any) -> None:
        if self.known is not None:
            self.xp.copyto(out, self.known.reshape(out.shape))
        elif self.count:
            self.draw(*self.grid, (self.state, out), (self.count, self.probability))
            self.advance((1,), (1,), (self.state,), ())

    @staticmethod
    def explained(count: int, *_: Any) -> str:
        """A line for people."""
        return f"CUDA kernel kept_mask, {count} numbers by Philox"
