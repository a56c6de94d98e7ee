"""A file of one sequence refuses several rows of what has one for each sequence."""

import itertools

import numpy as np
import onnxruntime
import pytest

import fluidlite as fluid
from fluidlite import layers as L
from fluidlite.errors import ArgumentError
from fluidlite.saving.onnx.export import onnx_model

POOLS = ["sum", "average", "max", "first", "last"]
MEETINGS = {
    "mul": lambda pooled, row: L.elementwise_mul(pooled, row),
    "sub": lambda pooled, row: L.elementwise_sub(row, pooled),
    "concat": lambda pooled, row: L.concat([pooled, row], axis=1),
    "behind layers": lambda pooled, row: L.elementwise_add(L.fc(L.relu(pooled), 4), L.tanh(row)),
    "sums": lambda pooled, row: L.sums([L.scale(pooled, 2.0), row]),
}


def made(pool, meeting):
    """The session of a network of a sequence and of a row for each sequence, its program and its results."""
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    age = fluid.data("age", [None, 3], "float32")
    pooled = L.sequence_pool(L.embedding(words, [20, 4]), pool)
    out = L.fc(MEETINGS[meeting](pooled, L.fc(age, 4, act="tanh")), 2)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, out


@pytest.mark.parametrize(("pool", "meeting"), list(itertools.product(POOLS, MEETINGS)))
def test_rows_of_sequences(pool, meeting):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        exe, out = made(pool, meeting)
        program = fluid.default_main_program()
        session = onnxruntime.InferenceSession(onnx_model(program, ["words", "age"], [out.name]))
        ids, row = np.array([[3], [4], [5]], "int64"), np.full((1, 3), 0.5, "float32")
        words = fluid.create_lod_tensor(ids, [[3]], fluid.CPUPlace())
        ours = exe.run(feed={"words": words, "age": row}, fetch_list=[out])[0]
        theirs = session.run(None, {"words": ids, "age": row})[0]
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)
        with pytest.raises(Exception, match="Got invalid dimensions for input: age"):
            session.run(None, {"words": ids, "age": np.repeat(row, 3, 0)})
        with pytest.raises(ArgumentError, match="does not fit age"):
            onnx_model(program, ["words", "age"], [out.name], shapes={"age": [3, 3]})


def test_rows_of_words_stay_free():
    """Numbers beside the words have as many rows as the sequence."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        weight = fluid.data("weight", [None, 1], "float32")
        out = L.sequence_pool(L.elementwise_mul(L.embedding(words, [20, 4]), weight, axis=0), "sum")
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        model = onnx_model(fluid.default_main_program(), ["words", "weight"], [out.name])
        feed = {"words": np.array([[3], [4]], "int64"), "weight": np.array([[1], [2]], "float32")}
        theirs = onnxruntime.InferenceSession(model).run(None, feed)[0]
        feed["words"] = fluid.create_lod_tensor(feed["words"], [[2]], fluid.CPUPlace())
        np.testing.assert_allclose(theirs, exe.run(feed=feed, fetch_list=[out])[0], rtol=1e-5, atol=1e-6)
