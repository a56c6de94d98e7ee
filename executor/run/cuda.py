"""The CUDA side of a run: a NumPy-shaped namespace over CuPy, graph capture."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.executor.cuda.products import TF32, Products
from fluidlite.values.tensor import on

__all__ = ["CapturedStep", "FeedCopies", "KernelNamespace", "LaunchedStep", "Namespace"]


class _Reducing:
    """A CuPy function together with NumPy's `ufunc.reduce`."""

    def __init__(self, function: Any, reduction: Any) -> None:
        self.function = function
        self.reduction = reduction

    def __call__(self, *operands: Any, **options: Any) -> Any:
        return self.function(*operands, **options)

    def reduce(self, array: Any, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:
        """The reduction over `axis`, into `out`."""
        return self.reduction(array, axis=axis, keepdims=keepdims, out=out)

    def at(self, array: Any, indices: Any, values: Any) -> None:
        """CuPy's own `at`: in place, with every repetition of an index."""
        self.function.at(array, indices, values)


class Namespace:
    """CuPy with the few NumPy spellings that generated plans use and CuPy lacks, and with products that a
    graph can hold.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._products = Products(cupy)
        self._scratch: Any = None
        self.for_kernels = KernelNamespace(self)
        if flags.get_flags(TF32)[TF32]:
            # CuPy asks at the first product of a process, and never again
            os.environ["CUPY_TF32"] = "1"
        self.add = _Reducing(cupy.add, cupy.sum)
        self.maximum = _Reducing(cupy.maximum, cupy.amax)
        self.minimum = _Reducing(cupy.minimum, cupy.amin)
        self.multiply = _Reducing(cupy.multiply, cupy.prod)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cupy, name)

    def scratch(self, nbytes: int) -> Any:
        """Memory for one call of a library: the plan's next call writes over it.

        It has its size after the first run, before anything captures its address.
        """
        if self._scratch is None or self._scratch.nbytes < nbytes:
            self._scratch = self._cupy.empty(max(nbytes, 1), np.uint8)
        return self._scratch

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        """`matmul`, of operands of one type."""
        if out is None:
            stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            out = self._cupy.empty((*stack, a.shape[-2], b.shape[-1]), a.dtype)
        return self._products.multiply(a, b, out)

    def dot(self, a: Any, b: Any, out: Any) -> Any:
        """`dot` of matrices and vectors."""
        return self._products.multiply(a, b, out)

    def add_product(self, a: Any, b: Any, out: Any) -> Any:
        """out += a @ b"""
        return self._products.multiply(a, b, out, adds=True)

    def take(
        self, array: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "clip"
    ) -> Any:
        """`take`; CuPy has no `mode`, and wraps what is outside."""
        return self._cupy.take(array, indices, axis=axis, out=out)


class KernelNamespace:
    """CuPy for portable kernels that become part of a graph: products of matrices are those of the plan.

    Caches may hold it, and hold none of the plan's memory by that.
    """

    def __init__(self, namespace: Namespace) -> None:
        self._cupy = namespace._cupy
        self._plan = weakref.ref(namespace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cupy, name)

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        """`matmul`"""
        plan = self._plan()
        if plan is None or a.dtype != b.dtype or min(a.ndim, b.ndim) < 2:
            return self._cupy.matmul(a, b, out=out)
        return plan.matmul(a, b, out=out)

    def dot(self, a: Any, b: Any, out: Any = None) -> Any:
        """`dot`"""
        if a.ndim == b.ndim == 2:
            return self.matmul(a, b, out)
        return self._cupy.dot(a, b, out=out)


class _Staged:
    """A place that one batch of a feed passes through: page-locked memory of the host, which the device
    fetches by itself, and memory of the device.
    """

    def __init__(self, cupy: Any, like: Any) -> None:
        memory = cupy.cuda.alloc_pinned_memory(max(like.nbytes, 1))
        self.pinned = np.frombuffer(memory, like.dtype, like.size).reshape(like.shape)
        self.there = cupy.empty(like.shape, like.dtype)
        self.fetched, self.taken = (cupy.cuda.Event(disable_timing=True) for _ in range(2))


class FeedCopies:
    """Copies of what is fed to a device, on a stream of their own: a batch is on its way while the step
    before still computes, if nothing of that was fetched.

    Two places take turns, so that the host can write to one while the device fetches from the other.
    """

    def __init__(self, cupy: Any, stream: Any) -> None:
        self.cupy = cupy
        self.stream = stream
        self.copies = cupy.cuda.Stream(non_blocking=True)
        self.places: dict[int, tuple[_Staged, _Staged]] = {}
        self.turns: dict[int, int] = {}
        # page-locked memory goes back to everybody, who would write to it while the device still fetches
        weakref.finalize(self, self.copies.synchronize)

    def feed(self, number: int, target: Any, item: Any) -> None:
        """Let argument `number` of the step be an array of the host, in the order of the step's stream."""
        if number not in self.places:
            self.places[number] = (_Staged(self.cupy, item), _Staged(self.cupy, item))
            # that memory may have been others' of the step's stream, which are not done with it
            self.copies.wait_event(self.stream.record())
        turn = self.turns[number] = 1 - self.turns.get(number, 0)
        place = self.places[number][turn]
        # long ago: the batch before the last was fetched from here
        place.fetched.synchronize()
        np.copyto(place.pinned, item)
        self.copies.wait_event(place.taken)
        place.there.set(place.pinned, stream=self.copies)
        place.fetched.record(self.copies)
        self.stream.wait_event(place.fetched)
        self.cupy.copyto(target, place.there)
        place.taken.record(self.stream)


class LaunchedStep:
    """A step that no graph holds: op by op, with what the host feeds copied on the caller's stream."""

    def __init__(self, cupy: Any, step: Any) -> None:
        self.cupy = cupy
        self.step = step

    def __call__(self, *arguments: Any) -> Any:
        return self.step(*[on(self.cupy, item) for item in arguments])


class CapturedStep:
    """A whole step captured into a CUDA graph: one launch instead of one for each kernel.

    The first run goes op by op, so that libraries set up what they need; the second is captured. Where
    capture fails, because something in the step needs the host, steps go on op by op.
    """

    def __init__(self, cupy: Any, step: Any) -> None:
        self.cupy = cupy
        self.step = step
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.runs = 0
        self.graph: Any = None
        self.result: Any = None
        self.inputs: list[Any] = []
        self.feeds = FeedCopies(cupy, self.stream)
        # what CuPy's own functions allocate for a moment is written again at every launch of the graph: it
        # must not become other people's
        self.pool = cupy.cuda.MemoryPool()

    def __call__(self, *arguments: Any) -> Any:
        # what was fed, or set in a scope, was put there on the caller's stream, for which this one does not
        # wait by itself
        self.stream.wait_event(self.cupy.cuda.get_current_stream().record())
        with self.stream:
            self._feed(arguments)
            if self.graph is not None:
                self.graph.launch(self.stream)
            elif self.runs < 2:
                with self.cupy.cuda.using_allocator(self.pool.malloc):
                    self._first_runs()
            else:
                self.result = self.step(*self.inputs)
            self.runs += 1
        # the caller reads the result on another stream; the host goes on until somebody needs a number
        self.cupy.cuda.get_current_stream().wait_event(self.stream.record())
        return self.result

    def _feed(self, arguments: Sequence[Any]) -> None:
        """Copy what was fed to where the captured step reads it."""
        if not self.inputs:
            # CuPy keeps NumPy's order of columns; kernels take rows
            self.inputs = [self.cupy.array(item, order="C") for item in arguments]
            return
        for number, (place, item) in enumerate(zip(self.inputs, arguments, strict=True)):
            if isinstance(item, np.ndarray):
                self.feeds.feed(number, place, item)
            else:
                self.cupy.copyto(place, item)

    def _first_runs(self) -> None:
        if self.runs == 0:
            self.result = self.step(*self.inputs)
            return
        self.stream.begin_capture()
        try:
            try:
                result = self.step(*self.inputs)
            finally:
                # fails once more where something broke the capture
                graph = self.stream.end_capture()
        except Exception:
            # never again: something in this step needs the host
            self.result = self.step(*self.inputs)
            return
        self.result, self.graph = result, graph
        graph.launch(self.stream)
