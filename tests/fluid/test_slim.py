"""Graphs, pruning and distillation.

Numbers without another source are those of PaddlePaddle 1.8.5 for the same network.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from slim_net import PLACE, Net, reader

import fluidlite as fluid
from fluidlite.contrib.slim.distillation import FSPDistiller, L2Distiller, SoftLabelDistiller
from fluidlite.contrib.slim.graph import GraphWrapper, SlimGraphExecutor
from fluidlite.contrib.slim.prune import (
    AutoPruneStrategy,
    PruneStrategy,
    SensitivePruneStrategy,
    StructurePruner,
    UniformPruneStrategy,
)
from fluidlite.contrib.slim.prune.channels import cuts_of
from fluidlite.contrib.slim.searcher import SAController


# ---------------------------------------------------------------------- graphs
def test_graphs() -> None:
    graph = Net().graph
    op, weight = graph.ops()[0], graph.var("conv1_weights")
    assert (op.idx(), op.type(), op.attr("strides")) == (0, "conv2d", [1, 1])
    assert [var.name() for var in op.all_inputs()] == ["conv1_weights", "image"]
    assert [one.type() for one in graph.next_ops(op)] == ["batch_norm"]
    assert graph.pre_ops(graph.ops()[1])[0] == op
    assert [one.type() for one in weight.inputs()] == ["conv2d"]
    assert (weight.outputs(), weight.shape(), graph.is_parameter(weight)) == ([], (8, 1, 3, 3), True)
    assert graph.get_param_by_op(op) == [weight]
    assert not graph.is_persistable(graph.var("image"))
    assert not (op.is_bwd_op() or op.is_opt_op())
    # by hand: two for each tap of three convolutions; 1.8.5 divides a depthwise one by its groups once more
    convolutions = 2 * (8 * 144 * 9 + 8 * 144 * 72 + 8 * 100 * 9 / 8 + 6 * 64 * 72)
    assert graph.flops(only_conv=True) == convolutions
    # as in 1.8.5: relu and batch_norm count their elements, a product dimension 1 of its input
    assert graph.flops() == convolutions + 2 * (8 * 144 * 2) + 6 * 64 + 2 * 6 * 10
    assert graph.numel_params() == sum(np.prod(var.shape()) for var in graph.all_parameters())


def test_a_graph_is_run_and_trains() -> None:
    net = Net()
    optimized = net.graph.get_optimize_graph(fluid.optimizer.SGD(0.1), PLACE, net.scope)
    assert [op.type() for op in optimized.ops() if op.is_opt_op()] == ["sgd"] * 12
    assert [op.type() for op in net.graph.ops() if op.is_bwd_op()] == []
    executor, batch = SlimGraphExecutor(PLACE), next(reader())
    first = executor.run(optimized, net.scope, data=batch)
    optimized.compile()
    for _ in range(5):
        last = executor.run(optimized, net.scope, data=batch)
    assert len(first) == 2
    assert last[0].item() < first[0].item()
    columns = [np.stack([np.asarray(one) for one in column]) for column in zip(*batch, strict=True)]
    fed = {"image": columns[0], "label": columns[1]}
    again = executor.run(net.eval_graph, net.scope, data=fed)
    np.testing.assert_allclose(executor.run(net.eval_graph, net.scope, data=batch)[0], again[0])


def test_graphs_are_saved(tmp_path: pathlib.Path) -> None:
    net, exe = Net(), fluid.Executor(PLACE)
    with fluid.scope_guard(net.scope):
        net.graph.save_persistables(str(tmp_path / "p"), exe)
        net.eval_graph.save_model(str(tmp_path / "model"), exe)
    kept = np.array(net.scope.find_var("conv1_weights").get_tensor())
    net.scope.find_var("conv1_weights").get_tensor().set(0 * kept, PLACE)
    with fluid.scope_guard(net.scope):
        net.graph.load_persistables(str(tmp_path / "p"), exe)
        feeds = fluid.io.load_inference_model(str(tmp_path / "model"), exe)[1]
    np.testing.assert_array_equal(np.array(net.scope.find_var("conv1_weights").get_tensor()), kept)
    assert feeds == ["image", "label"]


# ---------------------------------------------------------------------- distillation
def pair() -> GraphWrapper:
    """A student with its loss, and a teacher's forward part."""
    layers, programs = fluid.layers, []
    for prefix in ("", "teacher_"):
        program = fluid.Program()
        with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard(prefix):
            x, label = fluid.data("x", [None, 3, 6, 6]), fluid.data("label", [None, 1], "int64")
            a = layers.conv2d(x, 4, 3, padding=1, name="a")
            b = layers.conv2d(a, 5, 3, padding=1, name="b")
            p = layers.fc(b, 10, name="p")
            loss = layers.mean(layers.softmax_with_cross_entropy(p, label)) if not prefix else None
        programs.append((program, loss))
    graph = GraphWrapper(programs[0][0], [("x", "x")], [("loss", programs[0][1].name)])
    graph.merge(GraphWrapper(programs[1][0]))
    return graph


DISTILLERS = {
    "l2loss_a.tmp_1_teacher_a.tmp_1": (
        lambda: L2Distiller("a.tmp_1", "teacher_a.tmp_1", 2.0),
        ["elementwise_sub", "square", "reduce_mean", "scale", "elementwise_add"],
    ),
    "fsp_distillation_loss": (
        lambda: FSPDistiller([["a.tmp_1", "b.tmp_1"]], [["teacher_a.tmp_1", "teacher_b.tmp_1"]], 3),
        ["fsp", "fsp", "elementwise_sub", "square", "reduce_mean", "sum", "scale", "elementwise_add"],
    ),
    "soft_label_loss_p.tmp_1_teacher_p.tmp_1": (
        lambda: SoftLabelDistiller("p.tmp_1", "teacher_p.tmp_1", 2.0, 4.0, 0.5),
        [
            *("scale", "softmax", "scale", "softmax", "cross_entropy", "reduce_mean", "scale"),
            "elementwise_add",
        ],
    ),
}


@pytest.mark.parametrize("name", DISTILLERS)
def test_distillers_add_the_ops_of_1_8_5(name: str) -> None:
    make, types = DISTILLERS[name]
    graph = pair()
    before = len(graph.ops())
    assert make().distiller_loss(graph) is graph
    assert [op.type() for op in graph.ops()[before:]] == types
    assert list(graph.out_nodes) == ["loss", name]
    last = graph.ops()[-1]
    assert [var.name() for var in last.outputs("Out")] == [graph.out_nodes["loss"]]
    assert [var.name() for var in last.inputs("X")] == [graph.out_nodes[name]]


def test_a_student_learns_from_a_teacher() -> None:
    """The features come closer, and the teacher stays as it is."""
    graph, scope = pair(), fluid.Scope()
    L2Distiller("a.tmp_1", "teacher_a.tmp_1").distiller_loss(graph)
    rng = np.random.RandomState(0)
    for var in graph.all_parameters():
        value = rng.uniform(-0.3, 0.3, var.shape()).astype("float32")
        scope.var(var.name()).get_tensor().set(value, PLACE)
    teacher = [name for name in graph.program.global_block().vars if name.startswith("teacher_")]
    trained = graph.get_optimize_graph(fluid.optimizer.SGD(0.02), PLACE, scope, no_grad_var_names=teacher)
    kept = {name: np.array(scope.find_var(name).get_tensor()) for name in graph.teacher_persistables}
    data = {"x": rng.rand(4, 3, 6, 6).astype("float32"), "label": rng.randint(0, 10, (4, 1))}
    executor = SlimGraphExecutor(PLACE)
    losses = [executor.run(trained, scope, data=data)[1].item() for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    for name, value in kept.items():
        np.testing.assert_array_equal(np.array(scope.find_var(name).get_tensor()), value)


# ---------------------------------------------------------------------- pruning
def test_pruner() -> None:
    pruner = StructurePruner({"conv1": 0, "*": 1}, {"*": "l1_norm"})
    weight = np.random.RandomState(0).permutation(6 * 12).reshape(6, 3, 2, 2).astype("float32")
    norms = np.abs(weight).sum((1, 2, 3))
    assert sorted(pruner.cal_pruned_idx("conv1", weight, 0.4)) == sorted(norms.argsort()[:2])
    assert len(pruner.cal_pruned_idx("other", weight, 0.4)) == 1
    assert pruner.prune_tensor(weight, [1, 2], 0).shape == (4, 3, 2, 2)
    lazy = pruner.prune_tensor(weight, [1], 1, lazy=True)
    assert not lazy[:, 1].any()
    np.testing.assert_array_equal(lazy[:, [0, 2]], weight[:, [0, 2]])
    with pytest.raises(ValueError, match="by 'l1_norm', not by 'geometry_median'"):
        StructurePruner({"*": 0}, {"*": "geometry_median"}).cal_pruned_idx("w", weight, 0.5)


CUT = {
    "conv1_weights": {"conv1_weights": (4, 1, 3, 3), "conv2_weights": (8, 4, 3, 3)},
    "conv2_weights": {
        "conv2_weights": (4, 8, 3, 3),
        "conv3_weights": (4, 1, 3, 3),
        "conv4_weights": (6, 4, 3, 3),
        "depthwise_conv2d_0.b_0": (4,),
    },
    "conv4_weights": {"conv4_weights": (3, 8, 3, 3), "conv2d_2.b_0": (3,), "product": (192, 10)},
}
NORMS = {"conv1_weights": "batch_norm_0", "conv2_weights": "batch_norm_1"}


@pytest.mark.parametrize("param", CUT)
def test_parameters_shrink_together(param: str) -> None:
    net = Net()
    graph = net.context().optimize_graph
    before = {var.name(): var.shape() for var in graph.vars()}
    strategy = PruneStrategy(StructurePruner({"*": 0}, {"*": "l1_norm"}))
    shapes: dict[str, Any] = {}
    strategy._prune_parameters(graph, net.scope, [param], [0.5], PLACE, param_shape_backup=shapes)
    expected = dict(CUT[param])
    for name in ("w_0", "b_0", "w_1", "w_2") if param in NORMS else ():
        expected[f"{NORMS[param]}.{name}"] = (4,)
    velocities = {f"{name}_velocity_0": shape for name, shape in expected.items()}
    expected.update({name: shape for name, shape in velocities.items() if name in before})
    changed = {var.name(): var.shape() for var in graph.vars() if var.shape() != before[var.name()]}
    assert changed == expected
    assert {name: tuple(net.shape(name)) for name in expected} == expected
    assert shapes == {name: before[name] for name in expected}


def test_both_branches_of_a_sum_shrink() -> None:
    """1.8.5 leaves the other branch as it is, and the sum fails."""
    graph = Net(residual=True).graph
    cuts = {(cut.param, cut.axis) for cut in cuts_of(graph, "conv1_weights", [0, 5])}
    weights = {cut for cut in cuts if cut[0].startswith("conv")}
    assert {("conv1_weights", 0), ("conv2_weights", 0), ("conv2_weights", 1)} < weights
    assert {("conv3_weights", 0), ("conv4_weights", 1)} < weights
    with pytest.raises(ValueError, match=r"'batch_norm_0.w_0' is not the weight"):
        cuts_of(graph, "batch_norm_0.w_0", [1])


@pytest.mark.parametrize("residual", [False, True])
def test_uniform_pruning(residual: bool) -> None:
    net = Net(residual)
    context = net.context()
    full = net.eval_graph.flops()
    strategy = UniformPruneStrategy(StructurePruner({"*": 0}, {"*": "l1_norm"}), target_ratio=0.6)
    strategy.on_epoch_begin(context)
    assert context.eval_graph.flops() < 0.55 * full
    executor, batch = context.executor, next(reader())
    losses = [executor.run(context.optimize_graph, net.scope, data=batch)[0].item() for _ in range(8)]
    assert losses[-1] < losses[0]
    context.run_eval_graph()


def test_sensitive_pruning(tmp_path: pathlib.Path) -> None:
    net = Net()
    context = net.context()
    kept = np.array(net.scope.find_var("conv2_weights").get_tensor())
    strategy = SensitivePruneStrategy(
        StructurePruner({"*": 0}, {"*": "l1_norm"}),
        delta_rate=0.4,
        target_ratio=0.4,
        metric_name="loss",
        pruned_params="conv[12]_weights",
        sensitivities_file=str(tmp_path / "sensitivities.json"),
    )
    found = strategy._compute_sensitivities(context)
    np.testing.assert_array_equal(np.array(net.scope.find_var("conv2_weights").get_tensor()), kept)
    assert sorted(found) == ["conv1_weights", "conv2_weights"]
    assert found == json.loads((tmp_path / "sensitivities.json").read_text())
    assert strategy._format_sensitivities(found).startswith("conv1_weights: 0.40")
    # as if the first weight mattered and the second did not
    strategy.sensitivities = {
        "conv1_weights": {"pruned_percent": [0.4, 0.8], "loss": [0.5, 1.0]},
        "conv2_weights": {"pruned_percent": [0.4, 0.8], "loss": [0.001, 0.002]},
    }
    names, shares = strategy._get_best_ratios(context, strategy.sensitivities, 0.4)
    assert dict(zip(names, shares, strict=True))["conv2_weights"] > 2 * shares[0]
    full = net.eval_graph.flops()
    strategy.on_epoch_begin(context)
    assert context.eval_graph.flops() < 0.75 * full


def test_automatic_pruning() -> None:
    net = Net()
    context = net.context()
    strategy = AutoPruneStrategy(
        StructurePruner({"*": 0}, {"*": "l1_norm"}),
        SAController(reduce_rate=0.9, init_temperature=1.0),
        end_epoch=2,
        min_ratio=0.2,
        max_ratio=0.8,
        metric_name="acc",
        pruned_params="conv[124]_weights",
    )
    strategy.on_compression_begin(context)
    full = net.eval_graph.flops()
    for epoch in range(3):
        context.epoch_id = epoch
        strategy.on_epoch_begin(context)
        assert 0.2 < 1 - context.eval_graph.flops() / full < 0.8
        strategy.on_epoch_end(context)
        assert (context.eval_graph.flops() == full) == (epoch < 2)
