"""A CuPy and an NCCL made of NumPy and threads: arrays lie at real addresses, and each call checks what
NCCL would check.
"""

from __future__ import annotations

import ctypes
import threading
import types
from collections import defaultdict
from typing import Any, ClassVar

import numpy as np

_lock = threading.Condition()
_meetings: dict[Any, dict[int, Any]] = defaultdict(dict)
_boxes: dict[Any, list[bytes]] = defaultdict(list)
TYPES = {0: np.int8, 1: np.uint8, 2: np.int32, 4: np.int64, 6: np.float16, 7: np.float32, 8: np.float64}
HOW = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum}


class DeviceArray(np.ndarray):
    """An array that only the device may look at."""

    __cuda_array_interface__: ClassVar[dict[str, Any]] = {}

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self) -> Any:
        return np.array(self)

    def set(self, values: Any) -> None:
        self[...] = values


def device(value: Any) -> Any:
    return np.array(value).view(DeviceArray)


def memory(address: int, nbytes: int) -> Any:
    return (
        np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)
        if nbytes
        else np.zeros(0, np.uint8)
    )


class NcclError(RuntimeError):
    pass


class NcclCommunicator:
    """A rank; every call meets those of the others, in order."""

    def __init__(self, count: int, name: tuple[int, ...], rank: int) -> None:
        assert len(name) == 128 and all(-128 <= number < 128 for number in name)
        self.count, self.name, self.rank, self.calls = count, name, rank, 0
        self._meet("init", b"")

    def _meet(self, what: Any, value: Any) -> list[Any]:
        self.calls += 1
        key = self.name, self.calls
        with _lock:
            _meetings[key][self.rank] = (what, value)
            _lock.notify_all()
            assert _lock.wait_for(lambda: len(_meetings[key]) == self.count, 20), (
                f"rank {self.rank} waits in {what}"
            )
            found = [_meetings[key][rank] for rank in range(self.count)]
        if any(other != what for other, _ in found):
            raise NcclError(f"ranks call {[other for other, _ in found]}")
        return [value for _, value in found]

    def _values(self, what: str, address: int, count: int, kind: int, *rest: Any) -> list[Any]:
        dtype = np.dtype(TYPES[kind])
        parts = self._meet((what, count, kind, *rest), memory(address, count * dtype.itemsize).tobytes())
        return [np.frombuffer(part, dtype) for part in parts]

    @staticmethod
    def _total(values: list[Any], how: int) -> Any:
        found = values[0]
        for value in values[1:]:
            found = HOW[how](found, value)
        return found

    def allReduce(self, source: int, target: int, count: int, kind: int, how: int, stream: int) -> None:
        total = self._total(self._values("allReduce", source, count, kind, how), how)
        memory(target, total.nbytes)[:] = total.view(np.uint8)

    def reduce(
        self, source: int, target: int, count: int, kind: int, how: int, root: int, stream: int
    ) -> None:
        total = self._total(self._values("reduce", source, count, kind, how, root), how)
        if self.rank == root:
            memory(target, total.nbytes)[:] = total.view(np.uint8)

    def reduceScatter(self, source: int, target: int, count: int, kind: int, how: int, stream: int) -> None:
        total = self._total(self._values("reduceScatter", source, count * self.count, kind, how), how)
        part = total[self.rank * count : (self.rank + 1) * count]
        memory(target, part.nbytes)[:] = part.view(np.uint8)

    def broadcast(self, source: int, target: int, count: int, kind: int, root: int, stream: int) -> None:
        found = self._values("broadcast", source, count, kind, root)[root]
        memory(target, found.nbytes)[:] = found.view(np.uint8)

    def allGather(self, source: int, target: int, count: int, kind: int, stream: int) -> None:
        found = np.concatenate(self._values("allGather", source, count, kind))
        memory(target, found.nbytes)[:] = found.view(np.uint8)

    def send(self, source: int, count: int, kind: int, peer: int, stream: int) -> None:
        with _lock:
            _boxes[self.name, self.rank, peer].append(memory(source, count).tobytes())
            _lock.notify_all()

    def recv(self, target: int, count: int, kind: int, peer: int, stream: int) -> None:
        box = _boxes[self.name, peer, self.rank]
        with _lock:
            assert _lock.wait_for(lambda: bool(box), 20)
            memory(target, count)[:] = np.frombuffer(box.pop(0), np.uint8)

    def check_async_error(self) -> None:
        pass


class Event:
    def __init__(self, disable_timing: bool = False) -> None:
        self.recorded: Any = None

    def record(self, stream: Any) -> None:
        self.recorded = stream


class Stream:
    def __init__(self, non_blocking: bool = False) -> None:
        self.ptr, self.waits = id(self), []  # type: ignore[var-annotated]

    def wait_event(self, event: Event) -> None:
        assert event.recorded is not None, "an event is waited for that nobody has recorded"
        self.waits.append(event)


def modules() -> tuple[Any, Any]:
    """(cupy, nccl); the current stream is one for each call."""
    main = Stream()
    cuda = types.SimpleNamespace(Stream=Stream, Event=Event, get_current_stream=lambda: main)
    cupy = types.SimpleNamespace(
        cuda=cuda,
        empty=lambda shape, dtype: np.empty(shape, dtype).view(DeviceArray),
        ascontiguousarray=lambda array: np.ascontiguousarray(array).view(DeviceArray),
        main=main,
    )
    nccl = types.SimpleNamespace(
        available=True,
        NcclCommunicator=NcclCommunicator,
        NcclError=NcclError,
        groupStart=lambda: None,
        groupEnd=lambda: None,
        get_unique_id=lambda: tuple(
            int(number) for number in np.random.default_rng().integers(-128, 128, 128)
        ),
        NCCL_INT8=0,
        NCCL_UINT8=1,
        NCCL_INT32=2,
        NCCL_INT64=4,
        NCCL_FLOAT16=6,
        NCCL_FLOAT32=7,
        NCCL_FLOAT64=8,
        NCCL_SUM=0,
        NCCL_PROD=1,
        NCCL_MAX=2,
        NCCL_MIN=3,
    )
    return cupy, nccl
