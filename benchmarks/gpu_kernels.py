"""The kernels of a CUDA device beside its own copies: bytes a second, and their share of what a copy reaches.

    python benchmarks/gpu_kernels.py [softmax ...] [--rounds 20]

A kernel is counted with the bytes that it has to read and write, each once; what it reads again should come
out of a cache. 0.85 is what we want of those that only move memory.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.registry import get
from fluidlite.executor.cuda.attention import AttentionForm, DeviceAttention
from fluidlite.executor.cuda.channels import DeviceChannels
from fluidlite.executor.cuda.draws import DeviceKeptMask
from fluidlite.executor.cuda.elementwise import FusedKernel, Part
from fluidlite.executor.cuda.pools import DevicePool
from fluidlite.executor.cuda.resizing import DeviceResize
from fluidlite.executor.cuda.rows import DeviceRowKernel, DeviceRows
from fluidlite.executor.cuda.tables import DeviceRowSums
from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.values import Storage, ValueFactory
from fluidlite.ops.kernels.pooling import Pooling, Windows
from fluidlite.ops.neural.batch_norm import BY_BATCH, GRADIENT

WANTED = 0.85
LOWEST = -64.0


@dataclass(frozen=True)
class Work:
    """One call of a kernel, and the bytes that it has to move."""

    call: Callable[[], None]
    nbytes: int


class Arrays:
    """Arrays of a device, whose bytes are counted."""

    def __init__(self, xp: Any, dtype: str = "float32") -> None:
        self.xp, self.dtype = xp, dtype
        self.nbytes = 0

    def __call__(self, *shape: int, below: int = 0) -> Any:
        """Random floats, or numbers from 0 up to `below`."""
        random = np.random.default_rng(0)
        if below:
            made = random.integers(0, below, shape)
        else:
            made = (random.random(shape, "float32") + 0.5).astype(self.dtype)
        self.nbytes += made.nbytes
        return self.xp.asarray(made)

    def work(self, kernel: Callable[..., None], *arrays: Any) -> Work:
        """A call of the kernel with arrays that were made here."""
        return Work(lambda: kernel(*arrays), self.nbytes)


def copied(xp: Any, elements: int) -> Work:
    """The measure of all others."""
    a = Arrays(xp)
    return a.work(xp.copyto, a(elements), a(elements))


def _rows(op: str, *sizes: int, numbers: Sequence[float] = (), dtype: str = "float32") -> Callable[..., Work]:
    """The kernel over rows that an op declares; `sizes` are those of the axes behind the first one."""

    def make(xp: Any, elements: int) -> Work:
        kernel, a = get(op).by_rows.kernel, Arrays(xp, dtype)
        form = kernel.form(**({"bias": None} if kernel.labels and "bias" in kernel.arrays else {}))
        whole = (max(1, elements // math.prod(sizes)), *sizes)
        size_of = dict(zip(kernel.axes, whole, strict=True))
        labels = {label.name for label in form.labels}
        arrays = [
            a(*(size_of[axis] for axis in form.axes[name]), below=sizes[-1] * (name in labels))
            for name in (*form.inputs, *form.outputs)
        ]
        work = a.work(DeviceRowKernel(xp, form, whole, dtype, numbers), *arrays)
        # sums over rows read the matrices once more, which are larger than the cache
        again = [array.nbytes for array in arrays[: len(form.inputs)] if array.ndim == len(whole)]
        return Work(work.call, work.nbytes + sum(again) * bool(form.totals))

    return make


def _pool(mode: str, backward: bool) -> Callable[[Any, int], Work]:
    """Windows of 3 x 3, every second one, of images of 56 x 56."""

    def make(xp: Any, elements: int) -> Work:
        a, planes = Arrays(xp), max(1, elements // (56 * 56))
        window = Windows.regular(56, 3, 2, (1, 1), False)
        count = len(window.starts)
        kernel = DevicePool(xp, (1, planes, 56, 56), Pooling([window] * 2, mode, True, np.dtype("float32")))
        x, pooled = a(1, planes, 56, 56), a(1, planes, count, count)
        if not backward:
            return a.work(kernel.forward, x, pooled)
        return a.work(kernel.backward, x, pooled, a(1, planes, count, count), a(1, planes, 56, 56))

    return make


def _resize(backward: bool) -> Callable[[Any, int], Work]:
    """Bilinear, from 28 x 28 to 56 x 56."""

    def make(xp: Any, elements: int) -> Work:
        a, planes = Arrays(xp), max(1, elements // (56 * 56))
        attrs = {
            "out_h": 56,
            "out_w": 56,
            "scale": 0.0,
            "align_corners": True,
            "align_mode": 1,
            "interp_method": "bilinear",
            "data_layout": "NCHW",
        }
        kernel = DeviceResize(xp, "bilinear_interp", (1, planes, 28, 28), np.dtype("float32"), attrs)
        small, large = a(1, planes, 28, 28), a(1, planes, 56, 56)
        return a.work(kernel.backward, large, small) if backward else a.work(kernel.forward, small, large)

    return make


def _batch_norm(sizes: tuple[int, int], backward: bool) -> Callable[[Any, int], Work]:
    """Training over (channels, inner) elements of each image; the two passes over them both count."""
    channels, inner = sizes

    def make(xp: Any, elements: int) -> Work:
        a, outer = Arrays(xp), max(1, elements // (channels * inner))
        form, attrs = (GRADIENT.form(), ()) if backward else (BY_BATCH.form(), (0.9, 1e-5))
        kernel = DeviceChannels(xp, form, (outer, channels, inner), "float32", attrs)
        lengths = {"n": outer, "c": channels, "p": inner}
        arrays = {name: a(*(lengths[axis] for axis in axes)) for name, axes in form.axes.items()}
        again = sum(arrays[name].nbytes for name in ("x", "dy") if name in arrays)
        return Work(a.work(kernel, *arrays.values()).call, a.nbytes + again)

    return make


def _lookup(xp: Any, elements: int) -> Work:
    a, columns, height = Arrays(xp), 512, 30000
    rows = max(1, elements // columns)
    ids, out = a(rows, below=height), a(rows, columns)
    read = a.nbytes + out.nbytes  # rows of the table, as many as are written
    table = a(height, columns)
    return Work(
        a.work(DeviceRows(xp, "lookup", rows, columns, "float32", [height, -1]), table, ids, out).call, read
    )


def _table_gradient(xp: Any, elements: int) -> Work:
    a, columns, height = Arrays(xp), 512, 30000
    rows = max(1, elements // columns)
    arrays = (a(rows, below=height), a(rows, columns), a(height, columns))
    work = a.work(DeviceRowSums(xp, (rows,), (-1,), columns, height, "float32"), *arrays)
    return Work(work.call, work.nbytes + arrays[2].nbytes)  # zeros, then sums


# element-wise runs as (function, operands): by their numbers the inputs, then the results of earlier steps
_GELU = (("mul", (0, 0.7071)), ("erf", (1,)), ("mul", (2, 0.5)), ("add", (3, 0.5)), ("mul", (0, 4)))
_MOMENTUM = (("mul", (1, 0.9)), ("add", (3, 2)), ("mul", (4, 0.1)), ("sub", (0, 5)))


def _elementwise(run: Any, inputs: int, outputs: tuple[int, ...], parts: int) -> Callable[[Any, int], Work]:
    """One launch for so many parts, each an element-wise run of its own."""

    def make(xp: Any, elements: int) -> Work:
        a, factory, shape = Arrays(xp), ValueFactory(), (elements // parts,)
        made, arrays = [], []
        for _ in range(parts):
            values = [factory.make(shape, "float32", Storage.BUFFER) for _ in range(inputs)]
            steps = []
            for function, operands in run:
                values += [factory.make(shape, "float32", Storage.BUFFER)]
                taken = tuple(values[item] if isinstance(item, int) else item for item in operands)
                steps.append((Elementwise(function, taken), values[-1]))
            made.append(Part(tuple(steps), tuple(values[:inputs]), tuple(values[at] for at in outputs)))
            arrays += [a(*shape) for _ in range(inputs + len(outputs))]
        kernel = FusedKernel("run", made)
        kernel.compile(xp)
        return a.work(kernel, *arrays)

    return make


def _kept_mask(xp: Any, elements: int) -> Work:
    mask = xp.zeros(elements, bool)
    draw = DeviceKeptMask(xp, np.random.default_rng(0), elements, 0.1, None)
    return Work(lambda: draw(mask), elements)


def _top_k(xp: Any, elements: int) -> Work:
    a, columns = Arrays(xp), 1000
    rows = max(1, elements // columns)
    arrays = (a(rows, columns), a(rows, 5), a(rows, 5, below=5))
    return a.work(DeviceRows(xp, "top_k", rows, columns, "float32", [5]), *arrays)


def _attention(backward: bool, dtype: str = "float32") -> Callable[[Any, int], Work]:
    """Sequences of 512, heads of 64. What it moves is little: the number says what its arithmetic takes."""

    def make(xp: Any, elements: int) -> Work:
        length, depth = 512, 64
        a, stacks = Arrays(xp, dtype), max(1, elements // (length * depth * 64))
        form = AttentionForm(1, stacks, length, length, depth, depth, dtype, alpha=0.125)
        q, k, v, out, *more = (a(stacks, length, depth) for _ in range(8 if backward else 4))
        tops, shares = (xp.ones((stacks, length), "float32") for _ in range(2))
        kernel = DeviceAttention(xp, form)
        call = kernel.backward if backward else kernel.forward
        return a.work(call, q, k, v, None, None, out, tops, shares, *more)

    return make


CASES: dict[str, Callable[[Any, int], Work]] = {
    "gelu": _elementwise(_GELU, 1, (5,), 1),
    "momentum of 64 parameters": _elementwise(_MOMENTUM, 3, (4, 6), 64),
    "softmax, rows of 10": _rows("softmax", 10, numbers=[LOWEST]),
    "softmax, rows of 512": _rows("softmax", 512, numbers=[LOWEST]),
    "softmax, rows of 32000": _rows("softmax", 32000, numbers=[LOWEST]),
    "softmax, rows of 512, float16": _rows("softmax", 512, numbers=[LOWEST], dtype="float16"),
    "softmax_grad, float16": _rows("softmax_grad", 512, dtype="float16"),
    "softmax_grad": _rows("softmax_grad", 512),
    "cross-entropy": _rows("softmax_with_cross_entropy", 1000, numbers=[LOWEST, -100]),
    "cross-entropy, gradient": _rows("softmax_with_cross_entropy_grad", 1000, numbers=[-100]),
    "layer_norm": _rows("layer_norm", 1024, numbers=[1e-5]),
    "layer_norm, gradient": _rows("layer_norm_grad", 1024, numbers=[1e-5]),
    "group_norm": _rows("group_norm", 32, 2, 28 * 28, numbers=[1e-5]),
    "group_norm, gradient": _rows("group_norm_grad", 32, 2, 28 * 28, numbers=[1e-5]),
    "pool of largest": _pool("max", False),
    "pool of largest, gradient": _pool("max", True),
    "pool of means": _pool("avg", False),
    "pool of means, gradient": _pool("avg", True),
    "bilinear_interp": _resize(False),
    "bilinear_interp, gradient": _resize(True),
    "batch_norm, 64 x 56 x 56": _batch_norm((64, 56 * 56), False),
    "batch_norm, 512 x 7 x 7": _batch_norm((512, 49), False),
    "batch_norm, 64 channels last": _batch_norm((64, 1), False),
    "batch_norm, gradient, 64 x 56 x 56": _batch_norm((64, 56 * 56), True),
    "batch_norm, gradient, 64 channels last": _batch_norm((64, 1), True),
    "attention": _attention(False),
    "attention, float16": _attention(False, "float16"),
    "attention, gradient": _attention(True),
    "dropout's mask": _kept_mask,
    "top_k, 5 of 1000": _top_k,
    "lookup": _lookup,
    "lookup, gradient": _table_gradient,
}


def gigabytes(cupy: Any, work: Work, rounds: int) -> float:
    """Gigabytes a second, of the median of some calls."""
    times = []
    for number in range(rounds + 3):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        work.call()
        end.record()
        end.synchronize()
        if number >= 3:  # the first ones compile and warm up
            times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return work.nbytes / sorted(times)[len(times) // 2] / 1e9


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", help="beginnings of names; all of them without")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--elements", type=int, default=64 << 20, help="of a kernel's largest array")
    args = parser.parse_args()
    import cupy  # here, so that --help needs no device

    best = gigabytes(cupy, copied(cupy, args.elements), args.rounds)
    print(f"copy: {best:.0f} GB/s\n\n| kernel | GB/s | / copy | |\n|---|---|---|---|")
    for name, make in CASES.items():
        if not args.kernels or name.startswith(tuple(args.kernels)):
            found = gigabytes(cupy, make(cupy, args.elements), args.rounds)
            verdict = "" if found >= WANTED * best else f"below {WANTED}"
            print(f"| {name} | {found:.0f} | {found / best:.2f} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
