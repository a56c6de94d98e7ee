"""Files from strangers: whatever is in them, the answer is a value or a FormatError, soon and in little
memory.
"""

from __future__ import annotations

import pathlib
import pickle
import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz_models import fuzz

import fluidlite as fluid
from fluidlite.errors import FormatError
from fluidlite.ir import proto
from fluidlite.ir.framework_pb import ProgramDesc, TensorDesc
from fluidlite.saving import pickles
from fluidlite.saving.pickles import dump_arrays, load_arrays
from fluidlite.values.serialize import ValueReader, tensor_bytes, value_bytes, write_folder
from fluidlite.values.tensor import LoDTensor, SelectedRows

parse_program = fluid.Program.parse_from_string
MODEL = pathlib.Path(__file__).parents[1] / "golden" / "models" / "mlp"


def refused(read: Callable[[], Any], match: str = "", seconds: float = 2.0, megabytes: float = 64) -> None:
    """`read` raises a FormatError within the limits."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(FormatError, match=match or None):
            read()
        assert time.process_time() - start < seconds
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()


def test_random_mutations() -> None:
    fuzz(1500, seed=0)


@pytest.mark.slow
def test_a_million_mutations() -> None:
    fuzz(1_000_000, seed=1)


# ------------------------------------------------------------------------------------------------ programs
def desc(blocks: int = 1) -> Any:
    program = ProgramDesc()
    for index in range(blocks):
        program.blocks.add(idx=index, parent_idx=index - 1)
    return program


def variable(program: Any, name: bytes = b"x", block: int = 0) -> Any:
    var = program.blocks[block].vars.add(name=name)
    var.type.type = 7
    var.type.lod_tensor.tensor.data_type = 5
    return var


def sub_block(program: Any, block: int, target: int) -> None:
    program.blocks[block].ops.add(type=b"while").attrs.add(name=b"sub_block", type=8).block_idx = target


def refuse_program(program: Any, match: str, **limits: float) -> None:
    data = program.SerializePartialToString()
    refused(lambda: parse_program(data), match, **limits)


def test_truncated_programs() -> None:
    data = (MODEL / "inference" / "__model__").read_bytes()
    for size in range(0, len(data), 7):
        try:
            parse_program(data[:size])
        except FormatError:
            continue
        assert size == 0 or data[size:].startswith(b'"'), "only the version may be missing"


def test_blocks_that_are_not_where_they_say() -> None:
    program = desc(2)
    program.blocks[1].idx = 7
    refuse_program(program, "has the index 7 in the file")
    program = desc(2)
    program.blocks[1].parent_idx = 9
    refuse_program(program, "names block 9 as its parent")
    program = desc(2)
    program.blocks[0].parent_idx = 1
    refuse_program(program, "block 0 has block 1 as its parent")
    program = desc(3)
    program.blocks[1].parent_idx, program.blocks[2].parent_idx = 2, 1
    refuse_program(program, "is its own ancestor")
    program = desc(2)
    program.blocks[1].forward_block_idx = -7
    refuse_program(program, "forward block")


def test_sub_blocks_that_never_end() -> None:
    program = desc(2)
    sub_block(program, 0, 5)
    refuse_program(program, "names block 5")
    program = desc(2)
    sub_block(program, 1, 1)
    refuse_program(program, "block 1 runs itself")
    program = desc(3)
    sub_block(program, 1, 2)
    sub_block(program, 2, 1)
    refuse_program(program, "runs itself")
    program = desc(64)
    for index in range(63):
        sub_block(program, index, index + 1)
        sub_block(program, index, index + 1)
    refuse_program(program, "unfolds into more than")


def test_a_long_chain_of_blocks_is_read() -> None:
    program = desc(3000)
    for index in range(2999):
        sub_block(program, index, index + 1)
    parse_program(program.SerializeToString())


def test_variables_that_cannot_be() -> None:
    program = desc()
    variable(program).type.lod_tensor.tensor.dims.extend([2**62])
    refuse_program(program, "impossible shape")
    program = desc()
    variable(program).type.lod_tensor.tensor.dims.extend([1] * 100_000)
    refuse_program(program, "100000 dimensions")
    program = desc()
    variable(program).type.lod_tensor.lod_level = 1 << 30
    refuse_program(program, "levels of detail")
    program = desc()
    variable(program)
    variable(program)
    refuse_program(program, "declares variable 'x' twice")
    program = desc()
    variable(program, b"\xff\xfe")
    refuse_program(program, "not UTF-8")
    program = desc()
    variable(program).type.type = 26
    refuse_program(program, "type number 26")
    program = desc()
    variable(program).is_parameter = True
    refuse_program(program, "no complete shape")


def test_ops_that_cannot_be() -> None:
    program = desc()
    op = program.blocks[0].ops.add(type=b"relu")
    op.attrs.add(name=b"a", type=0, i=1)
    op.attrs.add(name=b"a", type=0, i=2)
    refuse_program(program, "attribute 'a' twice")
    program = desc()
    op = program.blocks[0].ops.add(type=b"relu")
    op.inputs.add(parameter=b"X")
    op.inputs.add(parameter=b"X")
    refuse_program(program, "slot 'X' twice")
    program = desc()
    program.blocks[0].ops.add(type=b"x" * 100_000)
    refuse_program(program, "100000 characters")
    program = desc()
    program.blocks[0].ops.add(type=b"\xc3\x28")
    refuse_program(program, "not UTF-8")
    program = desc()
    program.blocks[0].ops.add(type=b"relu").inputs.add(parameter=b"X", arguments=[b"\xc3\x28"])
    refuse_program(program, "not UTF-8")


def test_bytes_that_are_no_program() -> None:
    refused(lambda: parse_program(b""), "holds? none|hold none")
    refused(lambda: parse_program(b"PK\x03\x04" + bytes(100)))
    refused(lambda: parse_program(b"\x80\x02}q\x00."))
    refused(lambda: parse_program(bytes(proto.MAX_BYTES + 1)), "too many", megabytes=128)
    program = desc()
    program.blocks[0].ops.add()
    refuse_program(program, "not a complete ProgramDesc")  # an op without its type
    refused(lambda: parse_program(b"\x0b" * 5000))  # groups in groups


def test_too_many_of_anything() -> None:
    head = b"\x08\x00\x10" + b"\xff" * 9 + b"\x01"

    def block(entries: bytes) -> bytes:
        body = head + entries
        size, text = len(body), b""
        while size > 127:
            size, text = size >> 7, text + bytes([size & 127 | 128])
        return b"\x0a" + text + bytes([size]) + body

    ops, variables = b"\x22\x03\x1a\x01r", b"\x1a\x07\x0a\x01x\x12\x02\x08\x07"
    assert len(parse_program(block(ops * 3)).global_block().ops) == 3
    refused(lambda: parse_program(block(ops * (1 << 19))), "ops is too large", megabytes=128)
    refused(lambda: parse_program(block(variables * (1 << 20))), "variables is too large", megabytes=128)
    refused(lambda: parse_program(block(b"") * (1 << 17)), "blocks is too large", megabytes=128)


def test_many_unknown_ops_are_looked_up_fast() -> None:
    program = desc()
    for number in range(2000):
        program.blocks[0].ops.add(type=b"unknown_%d" % number + b"_grad" * 40)
    start = time.process_time()
    parse_program(program.SerializeToString())
    assert time.process_time() - start < 2


# ------------------------------------------------------------------------------------------------ tensors
def tensor_file(
    dims: list[int],
    data_type: int = 5,
    data: bytes = b"",
    lod: bytes = struct.pack("<Q", 0),
    version: int = 0,
) -> bytes:
    text = TensorDesc(data_type=data_type, dims=dims).SerializePartialToString()
    return struct.pack("<I", version) + lod + struct.pack("<Ii", 0, len(text)) + text + data


def refuse_tensor(data: bytes, match: str) -> None:
    refused(lambda: ValueReader.of_bytes(data, "some file").tensor(), f"some file: .*{match}", megabytes=1)


def test_tensors_that_are_larger_than_their_file() -> None:
    refuse_tensor(tensor_file([1 << 40]), "should have")
    refuse_tensor(tensor_file([1 << 40, 1 << 40]), "should have")
    refuse_tensor(tensor_file([3], data=b"\0" * 11), "should have 12 bytes, but only 11 are left")
    refuse_tensor(tensor_file([-1]), r"shape \[-1\]")
    refuse_tensor(tensor_file([1] * 70), "shape")
    refuse_tensor(tensor_file([1 << 50, 0, 1 << 50]), "shape")
    refuse_tensor(tensor_file([], data_type=7), "type number 7")
    refuse_tensor(tensor_file([2], version=3), "version 3")
    refuse_tensor(struct.pack("<IQIi", 0, 0, 0, -5), "takes -5 bytes")
    refuse_tensor(struct.pack("<IQIi", 0, 0, 0, 1 << 30), "takes 1073741824 bytes")
    refuse_tensor(struct.pack("<IQIi", 0, 0, 0, 3) + b"abc", "no description")


def test_levels_that_do_not_fit() -> None:
    refuse_tensor(struct.pack("<IQ", 0, 1 << 60), "levels of detail")
    refuse_tensor(struct.pack("<IQQ", 0, 1, 1 << 60), "should have")
    refuse_tensor(struct.pack("<IQQ", 0, 1, 12) + bytes(12), "takes 12 bytes")
    for offsets in ([0, 5], [0, 2, 1], [1, 2], [0], [0, 2**64 - 1]):
        lod = struct.pack("<QQ", 1, 8 * len(offsets)) + struct.pack(f"<{len(offsets)}Q", *offsets)
        refuse_tensor(tensor_file([2], data=bytes(8), lod=lod), "lod info is invalid")


def test_selected_rows_that_do_not_fit() -> None:
    good = value_bytes(SelectedRows([1, 4], 6, np.ones((2, 3), "float32")))
    assert ValueReader.of_bytes(good).selected_rows().rows() == [1, 4]
    for size in range(len(good)):
        refused(lambda size=size: ValueReader.of_bytes(good[:size]).selected_rows())
    refused(
        lambda: ValueReader.of_bytes(struct.pack("<IQ", 0, 1 << 61)).selected_rows(),
        "should have",
        megabytes=1,
    )
    for rows, height in (([1, 9], 6), ([-1, 0], 6)):
        refused(
            lambda rows=rows, height=height: ValueReader.of_bytes(
                value_bytes(SelectedRows(rows, height, np.ones((2, 3), "float32")))
            ).selected_rows(),
            "row numbers",
        )


def test_truncated_tensors() -> None:
    data = tensor_bytes(LoDTensor(np.arange(6, dtype="float32").reshape(3, 2), ((0, 1, 3),)))
    for size in range(len(data)):
        refused(lambda size=size: ValueReader.of_bytes(data[:size]).tensor(), megabytes=1)


def test_more_in_a_file_than_was_asked_for() -> None:
    data = tensor_bytes(LoDTensor(np.ones(2, "float32")))
    refused(lambda: ValueReader.of_bytes(data + b"x").tensors(1), "1 bytes are left over")


# ------------------------------------------------------------------------------------------------ pickles
class Evil:
    """Runs a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


called: list[int] = []


def test_nothing_in_a_pickle_is_called() -> None:
    for proto_number in range(6):
        refused(lambda number=proto_number: load_arrays(pickle.dumps({"w": Evil(called.append, 1)}, number)))
        refused(
            lambda number=proto_number: load_arrays(
                pickle.dumps({"w": Evil(eval, "called.append(1)")}, number)
            )
        )
    refused(lambda: load_arrays(pickle.dumps({"w": Evil(np.load, "/etc/passwd")})))
    assert not called


def test_pickles_of_other_things() -> None:
    for value in (
        1,
        [1],
        {"w": [1]},
        {"w": object},
        {3: np.ones(2)},
        {"w": np.array(["a"])},
        {"w": np.array([None])},
        {"w": {"x": 1}},
    ):
        refused(
            lambda value=value: load_arrays(pickle.dumps(value, 2), "some.pdparams"),
            "some.pdparams is not a file of parameters",
        )


def test_pickles_that_would_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(
        lambda: load_arrays(b"\x80\x02})" + b"q\x00h\x00\x86" * 100 + b"K\x01s.")
    )  # t = (t, t), a hundred times, as a key
    refused(
        lambda: load_arrays(b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s."), seconds=9
    )  # a tuple 100000 deep, as a key
    refused(lambda: load_arrays(b"\x80\x02Nr\xff\xff\xff\x7f."), megabytes=1)  # memo number 2147483647
    refused(lambda: load_arrays(b"\x80\x02X\xff\xff\xff\x7fab."), megabytes=1)
    refused(lambda: load_arrays(b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."), megabytes=1)
    monkeypatch.setattr(pickles, "_MAX_STEPS", 1000)
    refused(lambda: load_arrays(b"\x80\x02" + b"N" * 2000 + b"."), "more than 1000 opcodes")


def test_arrays_that_are_larger_than_their_data() -> None:
    good = b"".join(dump_arrays({"w": np.arange(3, dtype="float32")}))
    assert load_arrays(good)["w"].tolist() == [0, 1, 2]
    for size in range(len(good)):
        refused(lambda size=size: load_arrays(good[:size]), megabytes=1)
    refused(
        lambda: load_arrays(good.replace(b"K\x01(K\x03t", b"K\x01(J\xff\xff\xff\x7ft")),
        "has 12 bytes",
        megabytes=1,
    )
    refused(lambda: load_arrays(good.replace(b"f4", b"O8")), "does not hold numbers")


# ------------------------------------------------------------------------------------------------ names
@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside", ""])
def test_names_do_not_lead_out_of_the_folder(tmp_path: pathlib.Path, name: str) -> None:
    folder = tmp_path / "model"
    with pytest.raises(ValueError, match="cannot name a file"), write_folder(folder) as files:
        files.put("fine", [b"x"])
        files.put(name, [b"x"])
    assert list(tmp_path.iterdir()) == []
    program = fluid.Program()
    program.global_block().create_var(name=name or "\0", shape=[2], dtype="float32", persistable=True)
    folder.mkdir()
    with pytest.raises(ValueError, match="cannot name a file"):
        fluid.io.load_persistables(None, str(folder), program)
