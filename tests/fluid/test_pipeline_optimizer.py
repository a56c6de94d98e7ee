"""Programs cut into sections by PipelineOptimizer: 1.8.5's sections, and the results of the whole program."""

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.errors import ArgumentError

FORWARD_A = ["mul", "elementwise_add", "relu"]
LOSS = ["elementwise_sub", "square", "mean"]
BACK_LOSS = ["fill_constant", "mean_grad", "square_grad", "elementwise_sub_grad"]
BACK_FC = ["elementwise_add_grad", "mul_grad"]

# cuts, optimizer -> for each section of 1.8.5 its ops, what it reads but parameters, and what it gives
RECORDED = {
    "two cuts": (
        ["hidden", "loss"],
        lambda: fluid.optimizer.SGD(0.1),
        [
            (FORWARD_A, {"x"}, {"a.tmp_2"}),
            (
                [*["mul", "elementwise_add"] * 2, *LOSS, *BACK_LOSS, *BACK_FC * 2, *["sgd"] * 4],
                {"a.tmp_2", "learning_rate_0", "y"},
                {"a.tmp_2@GRAD"},
            ),
            (
                ["relu_grad", *BACK_FC, "sgd", "sgd"],
                {"a.tmp_0", "a.tmp_2", "a.tmp_2@GRAD", "learning_rate_0", "x"},
                set(),
            ),
        ],
    ),
    "three cuts": (
        ["hidden", "second", "loss"],
        lambda: fluid.optimizer.Adam(0.1),
        [
            (FORWARD_A, {"x"}, {"a.tmp_2"}),
            (["mul", "elementwise_add"], {"a.tmp_2"}, {"b.tmp_1"}),
            (
                [
                    *["mul", "elementwise_add", "elementwise_sub", "square"],
                    *BACK_LOSS,
                    *BACK_FC,
                    *["adam"] * 2,
                ],
                {"b.tmp_1", "learning_rate_0", "y"},
                {"b.tmp_1@GRAD"},
            ),
            (
                ["mean", *BACK_FC, "adam", "adam"],
                {"a.tmp_2", "b.tmp_0", "b.tmp_1@GRAD", "learning_rate_0", "square_error_cost_0.tmp_1"},
                {"a.tmp_2@GRAD"},
            ),
            (
                ["relu_grad", *BACK_FC, "adam", "adam"],
                {"a.tmp_0", "a.tmp_2", "a.tmp_2@GRAD", "learning_rate_0", "x"},
                set(),
            ),
        ],
    ),
    "a schedule": (
        ["hidden", "loss"],
        lambda: fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 10, 0.5)),
        [
            (
                [*FORWARD_A, *["increment", "cast", "scale", "fill_constant", "elementwise_pow", "scale"]],
                {"x"},
                {"a.tmp_2", "tmp_3"},
            ),
            (
                [*["mul", "elementwise_add"] * 2, *LOSS, *BACK_LOSS, *BACK_FC * 2, *["sgd"] * 4],
                {"a.tmp_2", "tmp_3", "y"},
                {"a.tmp_2@GRAD"},
            ),
            (
                ["relu_grad", *BACK_FC, "sgd", "sgd"],
                {"a.tmp_0", "a.tmp_2", "a.tmp_2@GRAD", "tmp_3", "x"},
                set(),
            ),
        ],
    ),
}


def model():
    """A loss, and where it can be cut."""
    x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1])
    hidden = fluid.layers.fc(x, 4, act="relu", name="a", param_attr=fluid.initializer.Constant(0.1))
    second = fluid.layers.fc(hidden, 4, name="b", param_attr=fluid.initializer.Constant(0.2))
    out = fluid.layers.fc(second, 1, name="c", param_attr=fluid.initializer.Constant(0.3))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
    return {"hidden": hidden, "second": second, "loss": loss}


def cut(case):
    cuts, optimizer, _ = RECORDED[case]
    places = [fluid.CPUPlace()] * (2 * len(cuts) - 1)
    found = model()
    pipeline = fluid.optimizer.PipelineOptimizer(
        optimizer(), [[found[name]] for name in cuts], places, [1] * len(places), queue_size=2
    )
    assert pipeline.minimize(found["loss"]) is None
    return found["loss"], fluid.default_main_program()._pipeline_opt


@pytest.mark.parametrize("case", RECORDED)
def test_sections_are_those_of_paddle(case):
    _, options = cut(case)
    parameters = {var.name for var in fluid.default_main_program().list_vars() if var.is_parameter}
    assert (options["trainer"], options["device_worker"]) == ("PipelineTrainer", "Section")
    assert (options["queue_size"], options["sync_steps"], options["param_need_sync"]) == (2, 1, [])
    for section, (types, reads, gives) in zip(
        options["section_program_list"], RECORDED[case][2], strict=True
    ):
        block = section["program"].global_block()
        assert [op.type for op in block.ops] == types
        assert section["input_set"] - parameters == reads
        assert section["output_set"] == gives
        used = {name for op in block.ops for name in (*op.input_arg_names, *op.output_arg_names)}
        assert set(block.vars) == used


@pytest.mark.parametrize("case", RECORDED)
def test_sections_one_by_one_give_the_whole_program(case):
    """Each section runs in its turn, and is fed what the earlier ones made."""
    random = np.random.RandomState(3)
    batches = [
        {"x": random.rand(5, 4).astype("float32"), "y": random.rand(5, 1).astype("float32")} for _ in range(3)
    ]
    loss, options = cut(case)
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    sections = [section["program"] for section in options["section_program_list"]]
    executor = fluid.Executor(fluid.CPUPlace())
    found = []
    for programs in ([main], sections):
        scope = fluid.Scope()
        with fluid.scope_guard(scope):
            executor.run(startup)
            losses = [_step(executor, programs, batch)[loss.name] for batch in batches]
            weights = {
                var.name: np.array(scope.find_var(var.name).get_tensor())
                for var in main.list_vars()
                if var.is_parameter
            }
        found.append((losses, weights))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    for name, value in found[0][1].items():
        np.testing.assert_array_equal(found[1][1][name], value)
    assert found[0][0][0] > found[0][0][-1]


def _step(executor, programs, batch):
    """All values that the programs make, one after the other, of one batch."""
    values = dict(batch)
    for program in programs:
        block = program.global_block()
        made = [name for op in block.ops for name in op.output_arg_names if not block.var(name).persistable]
        read = {name for op in block.ops for name in op.input_arg_names}
        feed = {name: values[name] for name in read & values.keys()}
        values |= dict(zip(made, executor.run(program, feed, fetch_list=made), strict=True))
    return values


def test_cuts_and_places_must_fit():
    found = model()
    sgd = fluid.optimizer.SGD(0.1)
    for cuts, places in ((None, None), ([[found["hidden"]], [found["loss"]]], [fluid.CPUPlace()])):
        with pytest.raises(ArgumentError, match="PipelineOptimizer"):
            fluid.optimizer.PipelineOptimizer(sgd, cuts, places).minimize(found["loss"])
