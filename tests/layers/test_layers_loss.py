"""Loss, metric and activation layers: the ops that they append, what they refuse, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import fluidlite as fluid
from fluidlite import layers
from fluidlite.layers.neural.sampling import alias_method
from fluidlite.values.tensor import LoDTensor, offsets_of

RNG = np.random.RandomState(11)


def data(name: str = "x", shape: Any = (-1, 4), dtype: str = "float32", lod: int = 0) -> Any:
    """A fed variable through which gradients flow."""
    var = fluid.data(name, list(shape), dtype, lod_level=lod)
    var.stop_gradient = False
    return var


def floats(*shape: int) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(-1, 1, shape).astype("float32")


def run(fetches: Any, **feed: Any) -> list[Any]:
    """The fetches of one run, after the startup program."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    result: list[Any] = exe.run(feed=feed, fetch_list=fetches)
    return result


def ops() -> list[str]:
    """The types of the ops of the main program."""
    return [op.type for op in fluid.default_main_program().global_block().ops]


def sequences(array: Any, *lengths: int) -> LoDTensor:
    """Rows with a level of detail."""
    return LoDTensor(np.asarray(array), offsets_of([lengths]))


# ---------------------------------------------------------------------- what is appended
def test_reductions_over_everything() -> None:
    out = layers.reduce_sum(data())
    op = fluid.default_main_program().global_block().ops[-1]
    assert out.shape == (1,) and op.attr("reduce_all") and op.attr("dim") == [0]
    assert layers.reduce_max(data("y", (2, 3, 4)), dim=[0, -1], keep_dim=True).shape == (1, 3, 1)
    assert layers.reduce_mean(data("z", (2, 3, 4)), dim=[]).shape == (1,)


def test_sequences_survive_where_rows_do() -> None:
    assert layers.reduce_sum(data(lod=1), dim=1).lod_level == 1
    assert layers.reduce_sum(data("y", lod=1), dim=0).lod_level == 0


def test_cross_entropy_chooses_its_op() -> None:
    label = data("label", (-1, 1), "int64")
    layers.cross_entropy(data(), label)
    layers.cross_entropy(data("y"), data("soft"), soft_label=True)
    assert ops() == ["cross_entropy2", "cross_entropy"]


def test_auc_appends_the_recent_one_first() -> None:
    overall, recent, states = layers.auc(
        data(shape=(-1, 2)), data("label", (-1, 1), "int64"), num_thresholds=200, slide_steps=5
    )
    first, second = fluid.default_main_program().global_block().ops
    assert (first.output("AUC"), first.attr("slide_steps")) == ([recent.name], 5)
    assert (second.output("AUC"), second.attr("slide_steps")) == ([overall.name], 0)
    assert [state.shape for state in states] == [(1207,), (1207,), (1, 201), (1, 201)]
    assert all(state.persistable for state in states)
    assert overall.dtype == fluid.core.VarDesc.VarType.FP64


def test_swish_ignores_beta_as_paddle_does() -> None:
    x = floats(2, 4)
    (found,) = run([layers.swish(data(), beta=3.0)], x=x)
    np.testing.assert_allclose(found, x * special.expit(x), rtol=1e-5)


def test_nce_makes_alias_tables() -> None:
    layers.nce(
        data(), data("label", (-1, 1), "int64"), 4, sampler="custom_dist", custom_dist=[0.1, 0.2, 0.3, 0.4]
    )
    assert ops() == ["nce", "scale"]
    startup = fluid.default_startup_program().global_block()
    assert [op.type for op in startup.ops].count("assign_value") == 3


def test_alias_method_keeps_the_distribution() -> None:
    probabilities = [0.1, 0.2, 0.3, 0.4]
    alias, keep = alias_method(probabilities)
    np.testing.assert_allclose(keep, [0.4, 0.8, 0.6, 1.0])
    found = np.array(keep) / 4
    for taker, giver in enumerate(alias):
        if giver >= 0:
            found[giver] += (1 - keep[taker]) / 4
    np.testing.assert_allclose(found, probabilities)


def test_hsigmoid_with_a_tree_of_its_own() -> None:
    table, code = (data(name, (-1, 3), "int64") for name in ("table", "code"))
    layers.hsigmoid(
        data(), data("label", (-1, 1), "int64"), 6, path_table=table, path_code=code, is_custom=True
    )
    op = fluid.default_main_program().global_block().ops[-1]
    assert op.input("PathTable") == ["table"] and op.input("PathCode") == ["code"]
    assert fluid.default_main_program().global_block().var(op.input("W")[0]).shape == (6, 4)


# ---------------------------------------------------------------------- what is refused
LABEL = ("label", (-1, 1), "int64")
REFUSED: list[tuple[type[Exception], Callable[[], Any]]] = [
    (TypeError, lambda: layers.reduce_sum(data(dtype="bool"))),
    (TypeError, lambda: layers.reduce_all(data())),
    (TypeError, lambda: layers.mean(data(dtype="int32"))),
    (TypeError, lambda: layers.softmax(data(dtype="int64"))),
    (TypeError, lambda: layers.cross_entropy(data(dtype="int32"), data(*LABEL))),
    (TypeError, lambda: layers.relu(3.0)),
    (TypeError, lambda: layers.rank_loss(1, 2, 3)),
    (TypeError, lambda: layers.margin_rank_loss(1, 2, 3)),
    (TypeError, lambda: layers.square_error_cost(data(), data("y", dtype="int32"))),
    (ValueError, lambda: layers.gelu(3.0)),
    (ValueError, lambda: layers.erf(3.0)),
    (ValueError, lambda: layers.prelu(data(), "some")),
    (ValueError, lambda: layers.label_smooth(data(), epsilon=2.0)),
    (ValueError, lambda: layers.hsigmoid(data(), data(*LABEL), 1)),
    (ValueError, lambda: layers.hsigmoid(data(), data(*LABEL), 6, is_custom=True)),
    (
        ValueError,
        lambda: layers.hsigmoid(data(), data(*LABEL), 6, path_table=data("table", (-1, 3), "int64")),
    ),
    (Exception, lambda: layers.nce(data(), data(*LABEL), 4, sampler="some")),
    (AssertionError, lambda: layers.mish(data(), -1)),
    (fluid.errors.ShapeError, lambda: layers.kldiv_loss(data(), data("y"), "some")),
    (
        fluid.errors.ShapeError,
        lambda: layers.softmax_with_cross_entropy(data(), data("label", (-1, 2), "int64")),
    ),
    (fluid.errors.ShapeError, lambda: layers.reduce_sum(data(), dim=5)),
]


@pytest.mark.parametrize(("error", "layer"), REFUSED)
def test_refused(error: type[Exception], layer: Callable[[], Any]) -> None:
    with pytest.raises(error):
        layer()


def test_labels_that_are_no_class() -> None:
    loss = layers.cross_entropy(layers.softmax(data()), data(*LABEL))
    with pytest.raises(fluid.errors.KernelError, match="label 4 is not one of 4 classes"):
        run([loss], x=floats(2, 4), label=np.array([[1], [4]]))


# ---------------------------------------------------------------------- what is computed
def test_npair_loss() -> None:
    anchor, positive, labels = floats(4, 3), floats(4, 3), np.array([0, 1, 0, 2], "float32")
    loss = layers.npair_loss(data("a", (4, 3)), data("p", (4, 3)), data("labels", (4, 1)), l2_reg=0.01)
    (found,) = run([loss], a=anchor, p=positive, labels=labels[:, None])
    same = (labels[:, None] == labels).astype(float)
    same /= same.sum(1, keepdims=True)
    cost = -(same * special.log_softmax(anchor @ positive.T, -1)).sum(1, keepdims=True)
    penalty = ((anchor**2).sum(1).mean() + (positive**2).sum(1).mean()) * 0.25 * 0.01
    np.testing.assert_allclose(found, [penalty + (same * cost).sum(0).mean()], rtol=1e-5)


def test_dice_loss() -> None:
    probability, label = special.softmax(floats(3, 4), -1), np.array([[0], [2], [3]])
    (found,) = run([layers.dice_loss(data(), data(*LABEL))], x=probability.astype("float32"), label=label)
    np.testing.assert_allclose(
        found, [np.mean(1 - 2 * np.take_along_axis(probability, label, 1)[:, 0] / (2 + 1e-5))], rtol=1e-5
    )


def test_center_loss_moves_its_centers() -> None:
    loss = layers.center_loss(
        data(),
        data(*LABEL),
        2,
        0.5,
        fluid.ParamAttr(name="centers", initializer=fluid.initializer.Constant(0.0)),
    )
    x = floats(3, 4)
    cost, centers = run([loss, "centers"], x=x, label=np.array([[0], [0], [1]]))
    np.testing.assert_allclose(cost, (x**2).sum(1, keepdims=True) / 2, rtol=1e-5)
    np.testing.assert_allclose(centers, 0.5 * np.stack([x[:2].sum(0) / 3, x[2] / 2]), rtol=1e-5)


def test_auc_counts_all_batches() -> None:
    overall, recent, _ = layers.auc(data(shape=(-1, 2)), data(*LABEL))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    batches = [([0.2, 0.9, 0.4], [0, 1, 1]), ([0.3, 0.8, 0.1], [1, 0, 0])]
    found = []
    for scores, label in batches:
        feed = {"x": np.array([[1 - p, p] for p in scores], "float32"), "label": np.array(label)[:, None]}
        found.append(
            [float(np.asarray(value).item()) for value in exe.run(feed=feed, fetch_list=[overall, recent])]
        )
    np.testing.assert_allclose(found, [[1.0, 1.0], [7 / 9, 1 / 2]])


def test_accuracy_of_the_first_two() -> None:
    correct, total = layers.create_tensor("int32"), layers.create_tensor("int32")
    share = layers.accuracy(data(), data(*LABEL), k=2, correct=correct, total=total)
    scores = np.array([[4, 3, 2, 1], [4, 3, 2, 1], [1, 2, 3, 4]], "float32")
    found = run([share, correct, total], x=scores, label=np.array([[1], [2], [3]]))
    assert [value.tolist() for value in found] == [[pytest.approx(2 / 3)], [2], [3]]


def test_crf_learns_to_decode() -> None:
    emission = layers.fc(data(shape=(-1, 4), lod=1), 3)
    label = data("label", (-1, 1), "int64", lod=1)
    cost = layers.mean(layers.linear_chain_crf(emission, label, fluid.ParamAttr(name="crfw")))
    path = layers.crf_decoding(emission, fluid.ParamAttr(name="crfw"))
    hits = layers.crf_decoding(emission, fluid.ParamAttr(name="crfw"), label=label)
    fluid.optimizer.SGD(0.5).minimize(cost)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    wanted = np.array([0, 1, 2, 2, 1, 0])[:, None]
    feed = {
        "x": sequences(np.eye(4, dtype="float32")[[0, 1, 2, 2, 1, 0]], 2, 4),
        "label": sequences(wanted, 2, 4),
    }
    costs = [exe.run(feed=feed, fetch_list=[cost])[0].item() for _ in range(20)]
    found, right = exe.run(feed=feed, fetch_list=[path, hits], return_numpy=False)
    assert costs[-1] < 0.2 * costs[0]
    assert np.asarray(found).tolist() == wanted.tolist() and np.asarray(right).all()
    assert found.recursive_sequence_lengths() == [[2, 4]]


def test_ctc_greedy_decoder_and_edit_distance() -> None:
    tokens = layers.ctc_greedy_decoder(data(shape=(-1, 3), lod=1), blank=2)
    distance, count = layers.edit_distance(tokens, data("wanted", (-1, 1), "int64", lod=1), normalized=False)
    scores = np.eye(3, dtype="float32")[[0, 0, 2, 0, 1, 1, 2, 0]]
    feed = {"x": sequences(scores, 5, 3), "wanted": sequences([[0], [1], [1]], 2, 1)}
    found = fluid.Executor(fluid.CPUPlace()).run(
        feed=feed, fetch_list=[tokens, distance, count], return_numpy=False
    )
    assert [np.asarray(value).tolist() for value in found] == [[[0], [0], [1], [1], [0]], [[1.0], [1.0]], [2]]
    assert found[0].recursive_sequence_lengths() == [[3, 2]]


def test_sampled_softmax_approaches_the_full_one() -> None:
    """With all classes drawn, the corrections are all that remains."""
    logits, label = floats(2, 6), np.array([[0], [3]])
    samples, chance = np.array([[0, 1, 2, 3, 4, 5], [3, 0, 1, 2, 4, 5]]), np.ones((2, 6), "float32")
    loss = layers.sampled_softmax_with_cross_entropy(
        data(shape=(-1, 6)),
        data(*LABEL),
        5,
        use_customized_samples=True,
        customized_samples=data("samples", (-1, 6), "int64"),
        customized_probabilities=data("chance", (-1, 6)),
    )
    (found,) = run([loss], x=logits, label=label, samples=samples, chance=chance)
    np.testing.assert_allclose(
        found, -np.take_along_axis(special.log_softmax(logits, -1), label, 1), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("layer", "reference"),
    [
        (lambda x: layers.log_softmax(x), lambda x: special.log_softmax(x, -1)),
        (lambda x: layers.log_softmax(x, axis=0, dtype="float64"), lambda x: special.log_softmax(x, 0)),
        (lambda x: layers.logsumexp(x, dim=1), lambda x: special.logsumexp(x, 1)),
        (lambda x: layers.dist(x, x * 2.0, p=1), lambda x: abs(x).sum()[None]),
        (lambda x: layers.cumsum(x, axis=0, exclusive=True), lambda x: np.cumsum(x, 0) - x),
        (lambda x: layers.mse_loss(x, x * 3.0), lambda x: (4 * x * x).mean()[None]),
        (lambda x: layers.pow(x, factor=layers.fill_constant([1], "float32", 3.0)), lambda x: x**3),
        (lambda x: layers.prelu(x, "all"), lambda x: np.where(x > 0, x, 0.25 * x)),
    ],
)
def test_composed_layers(layer: Callable[[Any], Any], reference: Callable[[Any], Any]) -> None:
    x = floats(3, 4)
    (found,) = run([layer(data())], x=x)
    np.testing.assert_allclose(found, reference(x.astype("float64")), rtol=1e-5, atol=1e-6)
