"""Small files that ask for much: loaders take no more memory and time than the size of a file allows.

The factor is stated in docs/SAFETY.md: 100 times the file for programs and containers, 8 for what holds
numbers.
"""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import struct
import tarfile
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.cli.errors import UsageError
from fluidlite.cli.models import load_model
from fluidlite.errors import FormatError
from fluidlite.ir import framework_pb, text
from fluidlite.paddle.dataset import cifar, mnist
from fluidlite.paddle.dataset.texts import gunzip, open_member, open_packed
from fluidlite.saving.pickles import load_arrays, load_objects
from fluidlite.show import json as as_json
from fluidlite.values.serialize import ValueReader

SLACK = 8 << 20  # imports, caches, the program itself
SECONDS = 3.0


def bounded(read: Callable[[bytes], Any], data: bytes, factor: float) -> Any:
    """The result of `read`, or its FormatError, within the factor."""
    tracemalloc.start()
    start = time.process_time()
    try:
        found = read(data)
    except FormatError as error:
        found = error
    finally:
        spent = time.process_time() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak <= factor * len(data) + SLACK, f"{peak} bytes of memory for {len(data)}"
    assert spent < SECONDS
    return found


# ------------------------------------------------------------------------------------------------ pickles
def word(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def pairs(levels: int) -> bytes:
    """A pair of two pairs that are one, and so on."""
    parts = (bytes([*b"h", i, *b"h", i, *b"\x86q", i + 1]) for i in range(levels))
    return b"\x80\x02K\0q\0" + b"".join(parts) + b"."


def dicts(levels: int) -> bytes:
    """The same of dicts."""
    parts = (
        b"}(" + word("a") + bytes([*b"h", i]) + word("b") + bytes([*b"h", i, *b"uq", i + 1])
        for i in range(levels)
    )
    return b"\x80\x02K\0q\0" + b"".join(parts) + b"."


DTYPE = b"cnumpy\ndtype\n" + word("f4") + b"\x89\x88\x87R"


def copies(size: int, count: int, shape: bytes = b"") -> bytes:
    """Many arrays over one string."""
    out = b"\x80\x02B" + struct.pack("<I", size) + bytes(size) + b"q\x01" + DTYPE + b"q\x02}("
    shape = shape or b"J" + struct.pack("<i", size // 4) + b"\x85"
    for number in range(count):
        out += word(f"p{number}") + b"cnumpy.core.numeric\n_frombuffer\n(h\x01h\x02" + shape
        out += word("C") + b"tR"
    return out + b"u."


def encodings(size: int, count: int) -> bytes:
    """One text in latin1, encoded many times."""
    again = b"c_codecs\nencode\nh\x01" + word("latin1") + b"\x86R"
    return b"\x80\x02](" + word("a" * size) + b"q\x01" + again * count + b"e."


def long_keys(size: int, count: int) -> bytes:
    return b"\x80\x02B" + struct.pack("<I", size) + bytes(size) + b"q\x01}" + b"h\x01Ns" * count + b"."


def many_dimensions(count: int) -> bytes:
    huge = b"\x8a\x07" + b"\xff" * 6 + b"\x0f"
    return copies(8, 1, b"(" + huge * count + b"t")


PICKLES = {
    "pairs": pairs(200),
    "dicts": dicts(200),
    "copies": copies(1 << 18, 2000),
    "encodings": encodings(1 << 18, 2000),
    "long keys": long_keys(1 << 20, 20_000),
    "dimensions": many_dimensions(20_000),
    "marks": b"\x80\x02" + b"(" * 30_000 + b".",
    "lists": b"\x80\x02" + b"]" * 30_000 + b".",
    "a list in itself": b"\x80\x02]q\0(" + b"h\0" * 1000 + b"e.",
    "deep lists": b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".",
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles(name: str) -> None:
    data = PICKLES[name]
    bounded(lambda data: load_objects(data, "x", np.asarray), data, 100 if len(data) < 1 << 18 else 8)
    bounded(load_arrays, data, 100 if len(data) < 1 << 18 else 8)


def test_what_is_shared_stays_shared(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.pdparams"
    path.write_bytes(pairs(30))
    found: Any = paddle.load(str(path))
    assert found[0] is found[1]
    path.write_bytes(copies(16, 2))
    assert sorted(paddle.load(str(path), return_numpy=True)) == ["p0", "p1"]


def test_honest_files_are_far_from_the_limit(tmp_path: pathlib.Path) -> None:
    value = {f"w{number}": np.ones((3, number), "float32") for number in range(50)}
    paddle.save(value, str(tmp_path / "x.pdparams"))
    found = paddle.load(str(tmp_path / "x.pdparams"), return_numpy=True)
    assert all((found[name] == value[name]).all() for name in value)


# ------------------------------------------------------------------------------------------------ programs
def _program() -> Any:
    desc = framework_pb.ProgramDesc()
    desc.blocks.add(idx=0, parent_idx=-1)
    return desc


def _with_attribute(field: str, kind: str, values: list[Any]) -> bytes:
    desc = _program()
    attr = desc.blocks[0].ops.add(type=b"x").attrs.add(name=b"a", type=framework_pb.ATTR_TYPES[kind])
    getattr(attr, field).extend(values)
    return bytes(desc.SerializeToString())


def _many(add: Callable[[Any, int], Any], count: int) -> bytes:
    desc = _program()
    for number in range(count):
        add(desc.blocks[0], number)
    return bytes(desc.SerializePartialToString())


def _attributes(block: Any, number: int) -> None:
    op = block.ops[0] if block.ops else block.ops.add(type=b"x")
    op.attrs.add(name=str(number).encode(), type=6)


PROGRAMS = {
    "ints": lambda: _with_attribute("ints", "INTS", [1] * 100_000),
    "longs": lambda: _with_attribute("longs", "LONGS", [2**62] * 30_000),
    "floats": lambda: _with_attribute("floats", "FLOATS", [0.1] * 50_000),
    "texts": lambda: _with_attribute("strings", "STRINGS", [b""] * 100_000),
    "stack": lambda: _with_attribute("strings", "STRINGS", [b'  File "a", line 1, in f\n'] * 10_000),
    "attributes": lambda: _many(_attributes, 20_000),
    "ops": lambda: _many(lambda block, number: block.ops.add(type=b"x"), 4_000),
    "names": lambda: _with_arguments(100_000),
    "nested": lambda: b"\x0a\xff\xff\x03" + b"\x0a\x7f" * 60_000,
}


def _with_arguments(count: int) -> bytes:
    desc = _program()
    desc.blocks[0].ops.add(type=b"x").inputs.add(parameter=b"X").arguments.extend([b""] * count)
    return bytes(desc.SerializeToString())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    # an op of 5 bytes is an object with attributes of its own
    bounded(fluid.Program.parse_from_string, PROGRAMS[name](), 600 if name == "ops" else 100)


@pytest.mark.parametrize(
    "source",
    [
        "program\n" + "block 0\n" * 50_000,
        "program\nblock 0\n  x() -> {a=" + "[" * 100_000 + "}\n",
        "program\nblock 0\n  x() -> {a=[" + "1, " * 50_000 + "]}\n",
        "program\nblock 0\n  x() -> {a=" + "9" * 100_000 + "}\n",
    ],
    ids=["blocks", "brackets", "numbers", "digits"],
)
def test_texts(source: str) -> None:
    bounded(lambda data: text.parse(data.decode()), source.encode(), 200)


def test_json() -> None:
    for source in ("[" * 200_000, '{"a":' * 100_000, "[" + "{}," * 50_000 + "{}]", "9" * 100_000):
        bounded(as_json.parse, source.encode(), 100)


# ------------------------------------------------------------------------------------------------ tensors
def test_levels_of_detail() -> None:
    offsets = struct.pack("<Q", 8 * 20_000) + np.arange(20_000, dtype="<u8").tobytes()
    one = struct.pack("<Ii", 0, 4) + b"\x08\x05\x10\x01" + bytes(4)
    data = struct.pack("<IQ", 0, 30) + offsets * 30 + one
    bounded(lambda data: ValueReader.of_bytes(data).tensor(), data, 20)


@pytest.mark.parametrize("dims", [[2**40], [0, 2**59], [2**31, 2**31], [1] * 64])
def test_shapes(dims: list[int]) -> None:
    desc = framework_pb.TensorDesc(data_type=5, dims=dims).SerializeToString()
    data = struct.pack("<IQIi", 0, 0, 0, len(desc)) + desc
    bounded(lambda data: ValueReader.of_bytes(data).tensor(), data, 8)


# ------------------------------------------------------------------------------------------------ archives
def test_archives(tmp_path: pathlib.Path) -> None:
    zeros = bytes(64 << 20)
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz", compresslevel=1) as archive:
        member = tarfile.TarInfo("data_batch_1")
        member.size = len(zeros)
        archive.addfile(member, io.BytesIO(zeros))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("x", zeros)
    with tarfile.open(tmp_path / "x.tar.gz") as archive, zipfile.ZipFile(tmp_path / "x.zip") as package:
        for read in (
            lambda: open_member(archive, "data_batch_1"),
            lambda: open_packed(package, "x"),
            lambda: gunzip(gzip.compress(zeros, 1), "x"),
            lambda: list(cifar.reader_creator(str(tmp_path / "x.tar.gz"), "data_batch")()),
        ):
            with pytest.raises(FormatError, match=r"of at most|decompresses to more than"):
                read()


@pytest.mark.parametrize("head", [(2051, 2**32 - 1, 28, 28), (2051, 1, 2**32 - 1, 2**32 - 1)])
def test_images_that_are_not_there(tmp_path: pathlib.Path, head: tuple[int, ...]) -> None:
    (tmp_path / "images").write_bytes(gzip.compress(np.array(head, ">u4").tobytes()))
    (tmp_path / "labels").write_bytes(gzip.compress(np.array([2049, 2**32 - 1], ">u4").tobytes()))
    with pytest.raises(FormatError, match="images"):
        list(mnist.reader_creator(str(tmp_path / "images"), str(tmp_path / "labels"), 100)())


# ------------------------------------------------------------------------------------------------ no files
def _inference(folder: str) -> None:
    fluid.io.load_inference_model(folder, fluid.Executor(fluid.CPUPlace()))


def _persistables(folder: str) -> None:
    fluid.layers.create_parameter([2], "float32", name="__model__")
    fluid.io.load_persistables(fluid.Executor(fluid.CPUPlace()), folder)


READERS = {
    "__model__": [_inference, _persistables, lambda folder: load_model(folder)],
    "m.pdparams": [
        lambda folder: paddle.load(f"{folder}/m.pdparams"),
        lambda folder: fluid.load_program_state(f"{folder}/m"),
        lambda folder: fluid.load(fluid.Program(), f"{folder}/m"),
    ],
    "m.pdmodel": [
        lambda folder: paddle.static.load_inference_model(f"{folder}/m", fluid.Executor(fluid.CPUPlace())),
        lambda folder: load_model(f"{folder}/m"),
    ],
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_no_models(name: str, kind: str, tmp_path: pathlib.Path) -> None:
    """A pipe waits for a writer, and `/dev/zero` has no end."""
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    for read in READERS[name]:
        with pytest.raises(
            (FormatError, UsageError), match="is a pipe or a device|no folder .* with a model"
        ):
            read(str(tmp_path))
