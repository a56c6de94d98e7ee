"""Convolutions of a CUDA device: milliseconds of the kernels here and of cuDNN, each direction by itself.

    python benchmarks/gpu_convolutions.py [--images 32]

The algorithm is the first that cuDNN proposes and that gives the same bits each time.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import numpy as np

from fluidlite.executor.cuda.chosen_conv import ChosenConv, ConvOptions
from fluidlite.executor.cuda.convolutions import device_conv
from fluidlite.executor.cuda.cudnn import BACKWARD_DATA, BACKWARD_FILTER, FORWARD
from fluidlite.executor.cuda.libraries import LibraryError
from fluidlite.executor.run.cuda import Namespace
from fluidlite.ops.kernels.convolution import Geometry

ROUNDS = 5
# channels, size, filters, kernel, stride, groups: layers of ResNet-50, MobileNet and ResNeXt
LAYERS = (
    (3, 224, 64, 7, 2, 1),
    (64, 56, 64, 3, 1, 1),
    (256, 56, 64, 1, 1, 1),
    (512, 7, 512, 3, 1, 1),
    (144, 56, 144, 3, 1, 144),
    (128, 56, 128, 3, 1, 32),
)
FORMS = (("float32", False), ("float32", True), ("float16", False), ("float16", True))


def geometry(images: int, layer: tuple[int, ...]) -> Geometry:
    """A layer over so many images."""
    channels, size, filters, kernel, stride, groups = layer
    pads = ((kernel // 2, kernel // 2),) * 2
    shape = (filters, channels // groups, kernel, kernel)
    return Geometry((images, channels, size, size), shape, (stride, stride), pads, (1, 1), groups)


def arrays(cupy: Any, g: Geometry, dtype: str, is_last: bool) -> dict[str, Any]:
    """Images, filters and results of random numbers."""
    random = np.random.default_rng(0)

    def made(shape: tuple[int, ...], last: bool) -> Any:
        lying = (shape[0], *shape[2:], shape[1]) if last else shape
        found = cupy.asarray(random.random(lying, "float32").astype(dtype))
        return cupy.moveaxis(found, -1, 1) if last else found

    return {"x": made(g.x, is_last), "w": made(g.w, False), "d": made(g.out, is_last)}


def milliseconds(cupy: Any, run: Any) -> float:
    """The median of some calls."""
    times = []
    for number in range(ROUNDS + 2):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        run()
        end.record()
        end.synchronize()
        if number >= 2:
            times.append(cupy.cuda.get_elapsed_time(begin, end))
    return sorted(times)[len(times) // 2]


def cells(cupy: Any, g: Geometry, dtype: str, is_last: bool) -> list[str]:
    """For each direction the time here, by cuDNN, and the ratio; or the reason why there is none."""
    kernel = device_conv(Namespace(cupy), g, np.dtype(dtype), ConvOptions(is_last))
    if not isinstance(kernel, ChosenConv):
        return ["no cuDNN"] * 3
    given, found = arrays(cupy, g, dtype, is_last), []
    operands = {FORWARD: "xwd", BACKWARD_DATA: "dwx", BACKWARD_FILTER: "xdw"}
    for direction, names in operands.items():
        left, right, like = (given[name] for name in names)
        parts = (left, right, cupy.zeros_like(like))
        here = milliseconds(cupy, functools.partial(getattr(kernel.portable, direction.method), *parts))
        try:
            kernel.cudnn.take(direction, kernel.cudnn.algorithms(direction)[0])
            there = milliseconds(cupy, functools.partial(getattr(kernel.cudnn, direction.method), *parts))
            found.append(f"{here:.3f} / {there:.3f} = {here / there:.1f}")
        except LibraryError as error:
            found.append(f"{here:.3f} / - ({error})")
    return found


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=32)
    images = parser.parse_args().images
    import cupy  # here, so that --help needs no device

    print(
        "| layer | type | here / cuDNN, ms: forward | gradient of images | of filters |\n" + "|---" * 5 + "|"
    )
    for layer in LAYERS if images > 1 else [(4, 8, 4, 3, 1, 1)]:
        for dtype, is_last in FORMS:
            found = cells(cupy, geometry(images, layer), dtype, is_last)
            form = f"{dtype}, channels {'last' if is_last else 'second'}"
            print(f"| {' '.join(map(str, layer))} | {form} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
