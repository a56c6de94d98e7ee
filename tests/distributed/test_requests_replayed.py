"""The rows that a simulated trainer reads are those of the moment when each of its requests was answered."""

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.distributed.cluster import verify_job
from fluidlite.distributed.requests import TablesAsAsked
from fluidlite.transpiler import make_job
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

ROWS = 4  # of each slice


def slices(count):
    """The slices of a table, by the fields that the simulation reads."""
    return [
        Slice("t", f"t.block{i}", "g", f"g.block{i}", i * ROWS, (ROWS, 2), str(i), True) for i in range(count)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_servers_answer_in_any_order(seed):
    """Slices change between answers: each request sees the values of its own answers, at every step."""
    draw = np.random.default_rng(seed)
    pieces = slices(int(draw.integers(1, 5)))
    requests = int(draw.integers(1, 4))
    program, scope = fluid.Program(), Scope()
    with fluid.program_guard(program, fluid.Program()):
        ids = fluid.data("ids", [None, 1], "int64")
        outputs = [
            fluid.layers.embedding(ids, [len(pieces) * ROWS, 2], param_attr="t").name for _ in range(requests)
        ]
    scope.var("t").set(LoDTensor(np.zeros((len(pieces) * ROWS, 2), "float32")))
    tables = TablesAsAsked(program, scope, {"t": [[name] for name in outputs]})
    for _ in range(3):
        tables.begin()
        seen = []
        for _ in range(requests):
            answers = {}
            for index in draw.permutation(len(pieces)):
                value = draw.random((ROWS, 2)).astype("float32")
                tables.write(pieces[index], value, whole=False)
                answers[index] = value
            seen.append(np.concatenate([answers[index] for index in range(len(pieces))]))
        read = [np.array(scope.find_var(name).value) for name in tables.copies["t"]]
        np.testing.assert_array_equal(np.stack(read), np.stack(seen))


@pytest.mark.parametrize("seed", range(4))
def test_a_table_on_several_servers_whose_gradients_are_clipped(seed):
    """The order of two answers is no error of the job."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        row = fluid.layers.embedding(ids, [301, 64], is_sparse=True)
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(row, 1) - 1.0))
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(max=0.05))
        fluid.optimizer.SGD(0.01).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode, config.min_block_size = False, 8192
    endpoints = [f"127.0.0.1:{6174 + index}" for index in range(3)]
    job = make_job(main, startup, "async", trainers=3, endpoints=endpoints, sync_mode=False, config=config)
    draw = np.random.default_rng(seed)
    # few ids, so that trainers and steps meet in rows
    feeds = [{"ids": draw.choice([3, 5, 200, 290], (12, 1)).astype("int64")} for _ in range(4)]
    assert verify_job(job, feeds).ok
