"""Mutate good files at random and read them: whatever comes, the answer is a value or a FormatError, and
soon.

python tests/fluid/fuzz_models.py [COUNT [SEED]]         COUNT mutations of each kind of file; default a
million
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import fluidlite as fluid
from fluidlite.errors import FormatError
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.text import parse
from fluidlite.saving.pickles import load_arrays
from fluidlite.values.serialize import ValueReader, tensor_bytes, value_bytes
from fluidlite.values.tensor import LoDTensor, SelectedRows

MODELS = pathlib.Path(__file__).parents[1] / "golden" / "models"
SLOWEST = 2.0
_INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"\xff" * 8,
    b"\xc3\x28",
    b"[",
    b'"',
    b"-9",
    b"999999999999999999999",
)


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """`data` after one to four random edits."""
    for _ in range(rng.integers(1, 5)):
        at, end = sorted(int(x) for x in rng.integers(0, len(data) + 1, 2))
        end = min(end, at + 64)
        other = int(rng.integers(0, len(data) + 1))
        kind = rng.integers(0, 7)
        if kind == 0:
            data = (
                data[:at]
                + bytes(rng.integers(0, 256, max(1, (end - at) % 4), dtype=np.uint8))
                + data[at + 1 :]
            )
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data = data[:at] + data[end:]
        elif kind == 3:
            data = data[:other] + data[at:end] + data[other:]
        elif kind == 4:
            data = (
                data[:at]
                + _INTERESTING[int(rng.integers(0, len(_INTERESTING)))]
                + data[at + int(rng.integers(0, 3)) :]
            )
        elif kind == 5:
            data = data[:at] + bytes(rng.integers(0, 256, end - at, dtype=np.uint8)) + data[end:]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << int(rng.integers(0, 8)))]) + data[at + 1 :]
    return data


def _read_program(data: bytes) -> None:
    program = fluid.Program.parse_from_string(data)
    serialize_program(program)
    str(program)
    program.clone()


def _read_tensors(data: bytes) -> None:
    source = ValueReader.of_bytes(data)
    while source.left:
        source.tensor()


def _read_rows(data: bytes) -> None:
    ValueReader.of_bytes(data).selected_rows()


def _read_text(data: bytes) -> None:
    str(parse(data.decode("utf8", errors="surrogateescape")))


def kinds() -> Iterator[tuple[str, Callable[[bytes], object], list[bytes]]]:
    """Name, reader and good files of each kind."""
    programs = [
        path.read_bytes()
        for path in (*sorted(MODELS.glob("*/inference/__model__")), *sorted(MODELS.glob("*/saved.pdmodel")))
    ]
    yield "program", _read_program, programs
    yield "text", _read_text, [str(fluid.Program.parse_from_string(data)).encode() for data in programs[:3]]
    yield "pickle", load_arrays, [path.read_bytes() for path in sorted(MODELS.glob("*/saved.pdparams"))]
    lod = tensor_bytes(LoDTensor(np.arange(6, dtype="float32").reshape(3, 2), ((0, 1, 2), (0, 2, 3))))
    yield (
        "tensor",
        _read_tensors,
        [lod, *(path.read_bytes() for path in sorted(MODELS.glob("*/inference_combined/__params__")))],
    )
    yield "rows", _read_rows, [value_bytes(SelectedRows([1, 4], 6, np.ones((2, 3), "float32")))]


def fuzz(count: int, seed: int) -> dict[str, int]:
    """Read `count` mutations of each kind of file; returns how many were still good files, by kind."""
    good: dict[str, int] = {}
    for name, read, files in kinds():
        rng = np.random.default_rng([seed, len(name)])
        good[name] = 0
        for number in range(count):
            data = mutate(files[number % len(files)], rng)
            start = time.process_time()
            try:
                read(data)
                good[name] += 1
            except FormatError:
                pass
            except Exception as error:
                raise AssertionError(
                    f"{name}, seed {seed}, mutation {number}: {type(error).__name__}"
                ) from error
            took = time.process_time() - start
            assert took < SLOWEST, f"{name}, seed {seed}, mutation {number}: reading took {took:.1f} s"
    return good


if __name__ == "__main__":
    sys.stdout.write(f"{fuzz(int((*sys.argv, 1_000_000)[1]), int((*sys.argv, 0, 0)[2]))}\n")
