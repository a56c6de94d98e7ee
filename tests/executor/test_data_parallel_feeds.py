"""Feeds, readers and fetches of data parallel programs where 1.8.5 does something of its own."""

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.errors import FeedError

ROWS = np.arange(12, dtype="float32").reshape(4, 3)


def built(trains=True, regularizer=None, clip=None):
    """A loss of `x`, trained or not."""
    x = fluid.data("x", [None, 3])
    weight = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0), regularizer=regularizer)
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=weight, bias_attr=False))
    if trains:
        fluid.optimizer.SGD(0.1, grad_clip=clip).minimize(loss)
    return loss


def on_two(loss=None, **strategy):
    """The main program on two devices."""
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    build = fluid.BuildStrategy()
    for name, value in strategy.items():
        setattr(build, name, value)
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=None if loss is None else loss.name, build_strategy=build, places=[fluid.CPUPlace()] * 2
    )
    return executor, compiled


# rows fed, and the first number that each device has
@pytest.mark.parametrize(("rows", "firsts"), [(4, [0.0, 6.0]), (2, [0.0, 3.0]), (1, [0.0, 0.0])])
@pytest.mark.parametrize("declared", [[-1, 3], [2, 3], [4, 3]])
def test_persistable_feed_is_split_unless_it_is_one_row(rows, firsts, declared):
    loss = built()
    given = fluid.layers.data("given", declared, append_batch_size=False)
    given.persistable = True
    seen = fluid.layers.scale(given, 1.0)
    executor, compiled = on_two(loss)
    feed = {"x": ROWS, "given": ROWS[:rows]}
    for _ in range(2):
        (parts,) = executor.run(compiled, feed, fetch_list=[seen], return_merged=False)
        assert [part[0, 0] for part in parts] == firsts
        assert [len(part) for part in parts] == [max(1, rows // 2)] * 2
    # what the user sets afterwards reaches both devices
    fluid.global_scope().find_var("given").get_tensor().set(np.full((1, 3), 9, "float32"), fluid.CPUPlace())
    (parts,) = executor.run(compiled, {"x": ROWS}, fetch_list=[seen], return_merged=False)
    assert [part[0, 0] for part in parts] == [9.0, 9.0]


@pytest.mark.parametrize("trains", [False, True])
def test_one_row_beside_more_is_an_error(trains):
    loss = built(trains)
    fluid.data("other", [None, 1])
    executor, compiled = on_two(loss if trains else None)
    with pytest.raises(FeedError, match=r"number\(1\) of samples\[other\]"):
        executor.run(compiled, {"x": ROWS, "other": np.ones((1, 1), "float32")}, fetch_list=[loss])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_last_batches_that_a_read_op_takes(drop_last, trains, devices):
    loss = built(trains)
    x = fluid.default_main_program().global_block().var("x")
    with fluid.program_guard(fluid.default_main_program()):
        loader = fluid.io.DataLoader.from_generator([x], 4, iterable=False, drop_last=drop_last)
    main = fluid.default_main_program()
    block = main.global_block()
    block.ops[:] = block.ops[-3:] + block.ops[:-3]  # the ops of the reader come first
    main.bump_version()
    assert [op.attr("drop_last") for op in block.ops if op.type == "read"] == [drop_last]
    loader.set_batch_generator(lambda: iter([[np.full((2, 3), i, "float32")] for i in range(5)]))
    executor, compiled = on_two(loss if trains else None)
    if devices != 2:
        compiled = fluid.CompiledProgram(main).with_data_parallel(
            loss.name if trains else None, places=[fluid.CPUPlace()] * devices
        )
    loader.start()
    sizes = []
    with pytest.raises(fluid.core.EOFException):
        while True:
            sizes.append(len(executor.run(compiled, fetch_list=[loss])[0]))
    # devices that train wait for each other, so that one alone cannot take a batch
    left = 5 % devices
    assert sizes == [devices] * (5 // devices) + ([] if trains or drop_last else [left])
    loader.reset()


@pytest.mark.parametrize("reduce", ["AllReduce", "Reduce"])
def test_what_is_made_for_an_update_can_be_fetched(reduce):
    loss = built(regularizer=fluid.regularizer.L2Decay(0.5), clip=fluid.clip.GradientClipByNorm(1.0))
    strategy = getattr(fluid.BuildStrategy.ReduceStrategy, reduce)
    executor, compiled = on_two(loss, reduce_strategy=strategy)
    ops = fluid.default_main_program().global_block().ops
    (scale,) = [op for op in ops if op.type == "scale"]
    (total,) = [op for op in ops if op.type == "sum"]
    names = [*scale.output_arg_names, *total.output_arg_names]
    gradient = np.array([4.5, 5.5, 6.5]) / np.linalg.norm([4.5, 5.5, 6.5])
    penalty, clipped = executor.run(compiled, {"x": ROWS}, fetch_list=names)
    np.testing.assert_allclose(penalty, np.full((6, 1), 0.5), rtol=1e-6)  # half the weight, from each device
    np.testing.assert_allclose(clipped, np.tile(gradient + 0.5, 2)[:, None], rtol=1e-6)


@pytest.mark.parametrize("devices", [2, 3])
@pytest.mark.parametrize("fuse", [False, True])
def test_gradients_that_are_worked_on_before_they_are_applied(devices, fuse):
    """Only the device that updates a parameter needs what is made of its gradient: it waits for the sum
    earlier than the others do.
    """
    found = []
    for count in (1, devices):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 3])
            hidden = x
            for name in ("w", "v"):
                weight = fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(0.3))
                hidden = fluid.layers.fc(hidden, 3, param_attr=weight, bias_attr=False)
            loss = fluid.layers.mean(fluid.layers.square(hidden))
            optimizer = fluid.optimizer.SGD(0.1)
            pairs = [
                (parameter, fluid.layers.scale(made, 0.5)) for parameter, made in optimizer.backward(loss)
            ]
            optimizer.apply_gradients(pairs)
        executor = fluid.Executor(fluid.CPUPlace())
        executor.run(startup, scope=scope)
        strategy = fluid.BuildStrategy()
        strategy.fuse_all_reduce_ops = fuse
        compiled = fluid.CompiledProgram(main).with_data_parallel(
            loss.name, strategy, places=[fluid.CPUPlace()] * count
        )
        for _ in range(3):
            executor.run(compiled, {"x": np.arange(18, dtype="float32").reshape(6, 3) / 9}, scope=scope)
        found.append([np.array(scope.find_var(name).get_tensor()) for name in ("w", "v")])
    for alone, together in zip(*found, strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-5)
