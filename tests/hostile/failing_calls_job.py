"""A process that saves and loads while the system fails one call of it: see `test_failing_calls.py`.

LD_PRELOAD=failing_calls.so python failing_calls_job.py WAY FOLDER MOST

It prints how many calls of each kind were failed, and what was wrong afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import pathlib
import random
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from ways_to_save import EXE, WAYS, fill, held, network

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.distributed import load_checkpoint, save_checkpoint

KINDS = ["write", "fsync", "rename", "open", "mkdir", "read", "allocate"]
ERRORS = {"write": errno.ENOSPC, "rename": errno.EACCES, "open": errno.EMFILE, "mkdir": errno.EDQUOT}
ENDLESS = 1 << 60


def _infer_1(main: fluid.Program, path: str) -> None:
    out = main.global_block().var("out")
    fluid.io.save_inference_model(path, ["x"], [out], EXE, main)


def _infer_2(main: fluid.Program, path: str) -> None:
    block = main.global_block()
    paddle.static.save_inference_model(path + "/m", [block.var("x")], [block.var("out")], EXE, program=main)


def _save_objects(main: fluid.Program, path: str) -> None:
    paddle.save({var.name: var for var in main.all_parameters()}, path + "/m.pdparams")


def _load_objects(main: fluid.Program, path: str) -> None:
    state = paddle.load(path + "/m.pdparams")
    fluid.set_program_state(main, {name: np.asarray(value) for name, value in state.items()})


ALL: dict[str, tuple[Callable[[fluid.Program, str], Any], Callable[[fluid.Program, str], Any]]] = {
    **WAYS,
    "a model": (_infer_1, lambda main, path: fluid.io.load_inference_model(path, EXE)),
    "a model of 2.x": (_infer_2, lambda main, path: paddle.static.load_inference_model(path + "/m", EXE)),
    "objects": (_save_objects, _load_objects),
    "a checkpoint": (
        lambda main, path: save_checkpoint(EXE, path, main, 1, max_num=2),
        lambda main, path: load_checkpoint(EXE, path, main),
    ),
}
"""The ways to save and load a network."""


class Outcome(NamedTuple):
    """The result of a call of `work` in a child: how many calls of the kind it made, the error, and what it
    holds then.
    """

    calls: int
    error: str
    trace: str
    held: list[float]


class Failing:
    """The preloaded library."""

    def __init__(self, folder: str) -> None:
        self.library = ctypes.CDLL(None)
        self.library.arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_char_p]
        self.library.disarm.restype = ctypes.c_long
        self.folder = folder

    def run(self, main: fluid.Program, kind: str, number: int, work: Callable[[], Any]) -> Outcome | str:
        """Work in a child whose call `number` of a kind fails; a text where the child was ended by a
        signal.
        """
        with tempfile.TemporaryFile() as answer:
            child = os.fork()
            if not child:
                self._work(main, kind, number, work, answer.fileno())
            status = os.waitpid(child, 0)[1]
            if status:
                return f"the process ends with status {status}"
            answer.seek(0)
            return Outcome(*json.load(answer))

    def _work(self, main: Any, kind: str, number: int, work: Callable[[], Any], answer: int) -> None:
        error = trace = ""
        self.library.arm(KINDS.index(kind), number, ERRORS.get(kind, errno.EIO), self.folder.encode())
        try:
            work()
            calls = self.library.disarm()
        except BaseException as found:
            calls = self.library.disarm()
            error, trace = f"{type(found).__name__}: {found}", traceback.format_exc()
        os.write(answer, json.dumps([calls, error, trace, sorted(held(main))]).encode())
        os._exit(0)


def hidden_in(folder: pathlib.Path) -> list[str]:
    """Everything under a hidden name."""
    return [name for _, folders, names in os.walk(folder) for name in folders + names if name[0] == "."]


def chosen(calls: int, most: int) -> list[int]:
    """Calls to fail: all of them, or some of very many."""
    return sorted(random.Random(calls).sample(range(calls), min(calls, most)))


class Trial:
    """One way to save, and what went wrong."""

    def __init__(self, way: str, folder: pathlib.Path) -> None:
        self.save, self.load = ALL[way]
        self.folder = folder
        self.path = str(folder / "model")
        self.main = network_with_output()
        self.failing = Failing(str(folder))
        self.value = 1.0
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}

    def saves(self, kind: str, most: int) -> None:
        """Fail the calls of a save."""
        work = lambda: self.save(self.main, self.path)
        whole = self.failing.run(self.main, kind, ENDLESS, work)
        assert isinstance(whole, Outcome) and not whole.error, whole
        numbers = chosen(whole.calls, most)
        self.counts[f"save {kind}"] = len(numbers)
        for number in numbers:
            fill(self.main, self.value + 1)
            found = self.failing.run(self.main, kind, number, work)
            self._check_error(f"save: {kind} {number} of {whole.calls}", kind, found)
            fill(self.main, 0.0)
            self.load(self.main, self.path)
            values = held(self.main)
            if values not in ({self.value}, {self.value + 1}):
                self.wrong.append(f"save: {kind} {number}: {values} loaded after {self.value}")
            self.value = max(values)
        self.save(self.main, self.path)
        if hidden_in(self.folder):
            self.wrong.append(f"after saves with failing {kind}: {hidden_in(self.folder)} left")

    def loads(self, kind: str, most: int) -> None:
        """Fail the calls of a load, which says so, and leaves what was held as a whole or not at all."""
        fill(self.main, 0.0)
        work = lambda: self.load(self.main, self.path)
        whole = self.failing.run(self.main, kind, ENDLESS, work)
        assert isinstance(whole, Outcome) and not whole.error, whole
        numbers = chosen(whole.calls, most)
        self.counts[f"load {kind}"] = len(numbers)
        for number in numbers:
            found = self.failing.run(self.main, kind, number, work)
            self._check_error(f"load: {kind} {number} of {whole.calls}", kind, found)
            if isinstance(found, Outcome) and not found.error and found.held != [self.value]:
                self.wrong.append(f"load: {kind} {number}: {found.held} without an error")

    def _check_error(self, what: str, kind: str, found: Outcome | str) -> None:
        if isinstance(found, str):
            # protobuf's C part writes to memory that it did not get: such a process ends as if it was killed
            if kind != "allocate":
                self.wrong.append(f"{what}: {found}")
            return
        reason = os.strerror(ERRORS.get(kind, errno.EIO))
        is_named = reason in found.error and self.path in found.error and ".tmp" not in found.error
        # the last one is protobuf's C part, which forgets to say so
        signs = ("MemoryError", "can't allocate", "returned NULL without setting an exception")
        is_memory = kind == "allocate" and any(sign in found.error for sign in signs)
        if found.error and not is_named and not is_memory:
            self.wrong.append(f"{what}: {found.error}\n{found.trace}")


def network_with_output() -> fluid.Program:
    """The network, and a variable that depends on all of its parameters."""
    x = fluid.data("x", [None, 3])
    main = network()
    sums = [fluid.layers.reduce_sum(fluid.layers.mul(x, weight)) for weight in main.all_parameters()]
    out = main.global_block().create_var(name="out", dtype="float32", shape=[1])
    fluid.layers.assign(fluid.layers.sum(sums), out)
    return main


def main() -> None:
    way, folder, most = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    trial = Trial(way, folder)
    fill(trial.main, trial.value)
    trial.save(trial.main, trial.path)
    for kind in KINDS:
        trial.saves(kind, most)
    for kind in ("open", "read", "allocate"):
        trial.loads(kind, most)
    print(json.dumps({"counts": trial.counts, "wrong": trial.wrong}))


if __name__ == "__main__":
    main()
