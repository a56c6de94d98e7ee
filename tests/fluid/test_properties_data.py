"""Properties of sequences, files and programs: what goes in comes out, and sequences are what NumPy makes
of each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import EXAMPLES, seeds, values

import fluidlite as fluid
from fluidlite import io, layers
from fluidlite.ir import framework_pb
from fluidlite.saving.pickles import dump_arrays, load_arrays
from fluidlite.values.serialize import ValueReader, tensor_bytes, value_bytes
from fluidlite.values.tensor import LoDTensor, SelectedRows, lengths_of, offsets_of

PLACE = fluid.CPUPlace()


def split(array: Any, lengths: Sequence[int]) -> list[np.ndarray]:
    return np.split(np.asarray(array), np.cumsum(lengths)[:-1])


def joined(sequences: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(list(sequences))


# ---------- levels of detail
@st.composite
def levels(draw: st.DrawFn) -> list[list[int]]:
    """Sequence lengths of one to three levels that fit each other."""
    found = [draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))]
    for _ in range(draw(st.integers(0, 2))):
        found.append([draw(st.integers(0, 3)) for _ in range(sum(found[-1]))])
        if not found[-1]:
            return found[:-1]
    return found


@EXAMPLES
@given(levels(), seeds)
def test_lengths_and_offsets(lengths: list[list[int]], seed: int) -> None:
    assert lengths_of(offsets_of(lengths)) == lengths
    tensor = fluid.create_lod_tensor(values((sum(lengths[-1]), 2), seed), lengths, PLACE)
    assert tensor.recursive_sequence_lengths() == lengths and tensor.has_valid_recursive_sequence_lengths()
    again = LoDTensor(np.array(tensor))
    again.set_lod(tensor.lod())
    assert again.recursive_sequence_lengths() == lengths


# ------------------------------------------------------------------------------------------------ sequences
Sequences = list[np.ndarray]
Reference = Callable[[Sequences], Sequences]


def pooled(take: Callable[[np.ndarray], np.ndarray]) -> Reference:
    return lambda found: [
        np.full((1, 2), 0.25) if len(part) == 0 else take(part).reshape(1, 2) for part in found
    ]


def windowed(part: np.ndarray) -> np.ndarray:
    """The context of three steps around each of a sequence, zeros beyond its ends, in a row."""
    padded = np.pad(part, ((1, 1), (0, 0)))
    return np.concatenate([padded[:-2], padded[1:-1], padded[2:]], axis=1) if len(part) else np.zeros((0, 6))


POOLS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum": lambda part: part.sum(0),
    "average": lambda part: part.mean(0),
    "sqrt": lambda part: part.sum(0) / np.sqrt(len(part)),
    "max": lambda part: part.max(0),
    "first": lambda part: part[0],
    "last": lambda part: part[-1],
}
IDENTITY = fluid.ParamAttr(
    name="identity", initializer=fluid.initializer.NumpyArrayInitializer(np.eye(6, dtype="float32"))
)
ONE_SEQUENCE: dict[str, tuple[Callable[[Any], Any], Reference]] = {
    **{
        f"pool {kind}": (lambda x, kind=kind: layers.sequence_pool(x, kind, pad_value=0.25), pooled(take))
        for kind, take in POOLS.items()
    },
    "reverse": (layers.sequence_reverse, lambda found: [part[::-1] for part in found]),
    "reshape": (
        lambda x: layers.sequence_reshape(x, 1),
        lambda found: [part.reshape(-1, 1) for part in found],
    ),
    "concat": (
        lambda x: layers.sequence_concat([x, x * 2.0]),
        lambda found: [np.concatenate([part, part * 2]) for part in found],
    ),
    "conv": (
        lambda x: layers.sequence_conv(x, 6, 3, param_attr=IDENTITY, bias_attr=False),
        lambda found: [windowed(part) for part in found],
    ),
}
LINEAR = (
    "pool sum",
    "pool average",
    "pool sqrt",
    "pool first",
    "pool last",
    "reverse",
    "reshape",
    "concat",
    "conv",
)


def tensor_of(array: np.ndarray, lengths: list[int] | None = None) -> LoDTensor:
    return fluid.create_lod_tensor(array.astype("float32"), [] if lengths is None else [lengths], PLACE)


def run_sequences(
    build: Callable[[Any], Any], tensor: LoDTensor, naive: bool, upstream: LoDTensor | None = None
) -> list[LoDTensor]:
    """The layer's result on one tensor, and its gradient where one comes in."""
    program, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, *tensor.shape()[1:]], "float32", lod_level=len(tensor.lod()))
        x.stop_gradient = False
        fetches, feed = [build(x)], {"x": tensor}
        if upstream is not None:
            feed["g"] = upstream
            given = fluid.data("g", [None, *upstream.shape()[1:]], "float32", lod_level=len(upstream.lod()))
            fetches += fluid.gradients(fetches, [x], [given])
    exe = fluid.Executor(PLACE)
    exe.run(startup, scope=scope)
    exe.naive = naive
    return exe.run(program, feed=feed, fetch_list=fetches, scope=scope, return_numpy=False)


@pytest.mark.parametrize("what", ONE_SEQUENCE)
@EXAMPLES
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any), st.booleans(), seeds)
def test_sequences(what: str, lengths: list[int], naive: bool, seed: int) -> None:
    build, reference = ONE_SEQUENCE[what]
    x = values((sum(lengths), 2), seed)
    expected = reference(split(x, lengths))
    (out,) = run_sequences(build, tensor_of(x, lengths), naive)
    np.testing.assert_allclose(np.array(out), joined(expected), rtol=1e-5, atol=1e-6)
    if not what.startswith("pool"):
        assert out.recursive_sequence_lengths() == [[len(part) for part in expected]]


@pytest.mark.parametrize("what", LINEAR)
@EXAMPLES
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any), st.booleans(), seeds)
def test_gradients_of_sequences_are_adjoint(what: str, lengths: list[int], naive: bool, seed: int) -> None:
    """For a linear layer f the gradient d satisfies <d, v> = <g, f(v)> for every v, where g comes in."""
    build, reference = ONE_SEQUENCE[what]
    x, v = values((sum(lengths), 2), seed), values((sum(lengths), 2), seed + 1)
    parts = reference(split(v, lengths))
    image = joined(parts) - joined(reference(split(0 * v, lengths)))
    g = values(image.shape, seed + 2)
    _, gradient = run_sequences(
        build,
        tensor_of(x, lengths),
        naive,
        tensor_of(g, None if what.startswith("pool") else [len(part) for part in parts]),
    )
    assert np.array(gradient).shape == x.shape
    np.testing.assert_allclose((np.array(gradient) * v).sum(), (g * image).sum(), rtol=1e-4, atol=1e-5)


@EXAMPLES
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2), st.booleans(), seeds)
def test_padding_and_back(lengths: list[int], more: int, naive: bool, seed: int) -> None:
    x = values((sum(lengths), 2), seed, "float32")
    tensor = tensor_of(x, lengths)
    filler = lambda: layers.fill_constant([1], "float32", 9.0)
    (padded,) = run_sequences(
        lambda x: layers.sequence_pad(x, filler(), max(lengths) + more)[0], tensor, naive
    )
    for row, part in zip(np.array(padded), split(x, lengths), strict=True):
        np.testing.assert_array_equal(row[: len(part)], part)
        assert (row[len(part) :] == 9).all() and len(row) == max(lengths) + more
    back, gradient = run_sequences(
        lambda x: layers.sequence_unpad(*layers.sequence_pad(x, filler())), tensor, naive, tensor
    )
    np.testing.assert_array_equal(np.array(back), x)
    np.testing.assert_array_equal(np.array(gradient), x)
    assert back.recursive_sequence_lengths() == [lengths]


@EXAMPLES
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any), st.booleans(), st.data(), seeds)
def test_slices_of_sequences(lengths: list[int], naive: bool, data: st.DataObject, seed: int) -> None:
    x = values((sum(lengths), 1), seed, "float32")
    starts = [data.draw(st.integers(0, length)) for length in lengths]
    counts = [
        data.draw(st.integers(0, length - start)) for length, start in zip(lengths, starts, strict=True)
    ]
    column = lambda numbers: layers.assign(np.array(numbers, "int32").reshape(-1, 1))
    (out,) = run_sequences(
        lambda x: layers.sequence_slice(
            x, layers.cast(column(starts), "int64"), layers.cast(column(counts), "int64")
        ),
        tensor_of(x, lengths),
        naive,
    )
    parts = [
        part[start : start + count]
        for part, start, count in zip(split(x, lengths), starts, counts, strict=True)
    ]
    np.testing.assert_array_equal(np.array(out), joined(parts))
    assert out.recursive_sequence_lengths() == [counts]


@EXAMPLES
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans(), seeds)
def test_softmax_and_expansion(lengths: list[int], naive: bool, seed: int) -> None:
    x = values((sum(lengths), 1), seed)
    tensor = tensor_of(x, lengths)
    (out,) = run_sequences(layers.sequence_softmax, tensor, naive)
    np.testing.assert_allclose(
        np.array(out), joined([np.exp(part) / np.exp(part).sum() for part in split(x, lengths)]), rtol=1e-5
    )
    # each sequence's sum, written to all of its steps
    for expand in (layers.sequence_expand_as, layers.sequence_expand):
        out, gradient = run_sequences(
            lambda x, expand=expand: expand(layers.sequence_pool(x, "sum"), x), tensor, naive, tensor
        )
        sums = joined([np.full_like(part, part.sum()) for part in split(x, lengths)])
        np.testing.assert_allclose(np.array(out), sums, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.array(gradient), sums, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------------ files
DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
arrays = st.builds(
    lambda shape, dtype, seed: (values(shape, seed) * 100).astype(dtype),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.sampled_from(DTYPES),
    seeds,
)
named = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_.@]{0,8}", fullmatch=True), arrays, min_size=1, max_size=4
)


def same(found: Any, array: np.ndarray) -> None:
    assert np.asarray(found).dtype == array.dtype
    np.testing.assert_array_equal(np.asarray(found), array)


@EXAMPLES
@given(arrays, levels(), st.lists(st.integers(0, 99), max_size=4), seeds)
def test_values_and_their_bytes(
    array: np.ndarray, lengths: list[list[int]], rows: list[int], seed: int
) -> None:
    same(ValueReader.of_bytes(tensor_bytes(LoDTensor(array))).tensor().array, array)
    sequences = LoDTensor(values((sum(lengths[-1]), 2), seed, "float32"), offsets_of(lengths))
    found = ValueReader.of_bytes(tensor_bytes(sequences)).tensor()
    assert found.lod() == sequences.lod()
    same(found.array, sequences.array)
    sparse = ValueReader.of_bytes(
        value_bytes(SelectedRows(rows, 100, values((len(rows), 3), seed)))
    ).selected_rows()
    assert (sparse.rows(), sparse.height()) == (rows, 100)
    same(sparse.array, values((len(rows), 3), seed))


@EXAMPLES
@given(named)
def test_pickles(values_by_name: dict[str, np.ndarray]) -> None:
    found = load_arrays(b"".join(dump_arrays(values_by_name)))
    assert list(found) == list(values_by_name)
    for name, array in values_by_name.items():
        same(found[name], array)


@EXAMPLES
@given(named, st.sampled_from(["files", "one file", "bytes", "fluid.save"]))
def test_saved_variables(values_by_name: dict[str, np.ndarray], how: str) -> None:
    program, exe = fluid.Program(), fluid.Executor(PLACE)
    for name, array in values_by_name.items():
        program.global_block().create_var(name=name, shape=array.shape, dtype=array.dtype, persistable=True)
    with tempfile.TemporaryDirectory() as folder:
        with fluid.scope_guard(fluid.Scope()):
            for name, array in values_by_name.items():
                fluid.global_scope().var(name).get_tensor().set(array, PLACE)
            if how == "fluid.save":
                fluid.save(program, f"{folder}/saved")
            saved = io.save_persistables(
                exe, None if how == "bytes" else folder, program, "all" if how == "one file" else None
            )
        with fluid.scope_guard(fluid.Scope()):
            if how == "fluid.save":
                fluid.load(program, f"{folder}/saved", exe)
            else:
                io.load_persistables(
                    exe,
                    None if how == "bytes" else folder,
                    program,
                    {"one file": "all", "bytes": saved}.get(how),
                )
            for name, array in values_by_name.items():
                same(fluid.global_scope().find_var(name).get_tensor(), array)


# ------------------------------------------------------------------------------------------------ programs
STEPS: dict[str, Callable[[Any], Any]] = {
    "fc": lambda x: layers.fc(x, 3, act="relu"),
    "two inputs": lambda x: layers.fc([x, x], 3, bias_attr=False),
    "dropout": lambda x: layers.dropout(x, 0.0),
    "norm": lambda x: layers.layer_norm(x),
    "softmax": layers.softmax,
    "reshape": lambda x: layers.reshape(layers.reshape(x, [-1, 1, 3]), [-1, 3]),
    "sum": lambda x: x + layers.reduce_mean(x),
    "concat": lambda x: layers.split(layers.concat([x, x * 2.0], axis=1), 2, dim=1)[1],
    "branch": lambda x: layers.cond(
        layers.less_than(layers.reduce_sum(x), layers.fill_constant([1], "float32", 0.5)),
        lambda: x * 3.0,
        lambda: layers.tanh(x),
    ),
    "cast": lambda x: layers.cast(layers.cast(x, "float64"), "float32"),
    "slice": lambda x: layers.expand(x[:, 1:2], [1, 3]),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "adam": lambda: fluid.optimizer.Adam(layers.noam_decay(10, 10)),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01)),
}


def built(steps: Sequence[str], optimizer: str | None) -> tuple[fluid.Program, fluid.Program, Any]:
    """A program of these steps, its startup program, and its loss."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out = layers.fc(fluid.data("x", [None, 3], "float32"), 3)
        for step in steps:
            out = STEPS[step](out)
        loss = layers.mean(out)
        if optimizer is not None:
            OPTIMIZERS[optimizer]().minimize(loss)
    return main, startup, loss


def steps_of(main: fluid.Program, startup: fluid.Program, loss: str, x: np.ndarray) -> list[float]:
    exe, scope = fluid.Executor(PLACE), fluid.Scope()
    exe.run(startup, scope=scope)
    return [float(exe.run(main, feed={"x": x}, fetch_list=[loss], scope=scope)[0].sum()) for _ in range(2)]


def without_calls(program: fluid.Program) -> bytes:
    """The bytes of a program whose ops do not say where they were built."""
    desc = framework_pb.ProgramDesc.FromString(program.desc.serialize_to_string())
    for block in desc.blocks:
        for op in block.ops:
            kept = [attr for attr in op.attrs if attr.name != b"op_callstack"]
            del op.attrs[:]
            op.attrs.extend(kept)
    return desc.SerializeToString()


@settings(EXAMPLES, max_examples=10)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), max_size=5),
    st.none() | st.sampled_from(sorted(OPTIMIZERS)),
    seeds,
)
def test_programs_come_back(steps: list[str], optimizer: str | None, seed: int) -> None:
    from fluidlite.ir.text import parse

    main, startup, loss = built(steps, optimizer)
    text = str(main)
    assert str(parse(text)) == text == str(main.clone())
    # what is read has all attributes of its ops, those too that a gradient rule leaves to their defaults
    program = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    data = program.desc.serialize_to_string()
    assert fluid.Program.parse_from_string(data).desc.serialize_to_string() == data
    # text names the line of an op, and not the calls that led there
    assert without_calls(parse(str(program))) == without_calls(program)
    program.random_seed = main.random_seed
    x = values((4, 3), seed, "float32")
    assert steps_of(program, startup, loss.name, x) == steps_of(main, startup, loss.name, x)
