"""Clips, error clips and weight decay: their ops and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import clip, layers, regularizer

X = np.array([[1.0, -2.0], [0.5, 3.0]], "float32")


def linear(**attrs: Any) -> Any:
    """A loss whose gradients are the column sums of X (for w) and 2 (for b)."""
    x = fluid.data("x", [None, 2], "float32")
    first = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(1.0), **attrs)
    return layers.reduce_sum(layers.fc(x, 1, param_attr=first, bias_attr=fluid.ParamAttr(name="b")))


def step(*names: str) -> list[np.ndarray]:
    """Variables after one step."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found: list[np.ndarray] = exe.run(feed={"x": X}, fetch_list=list(names))
    return found


def ops(role: int = 2) -> list[Any]:
    """The ops of the optimize role."""
    return [op for op in fluid.default_main_program().global_block().ops if op.attr("op_role") == role]


W, B = np.array([[1.5], [1.0]]), np.array([2.0])
NORM = np.sqrt((W**2).sum() + (B**2).sum())
CLIPS = [
    (lambda: clip.GradientClipByValue(1.2), np.minimum(W, 1.2), np.minimum(B, 1.2), "clip"),
    (lambda: clip.GradientClipByValue(1.8, 1.1), np.clip(W, 1.1, 1.8), np.clip(B, 1.1, 1.8), "clip"),
    (lambda: clip.GradientClipByNorm(1.9), W, B * 0.95, "clip_by_norm"),
    (lambda: clip.GradientClipByGlobalNorm(0.5), W * 0.5 / NORM, B * 0.5 / NORM, "elementwise_mul"),
    (lambda: clip.GradientClipByGlobalNorm(50.0), W, B, "elementwise_mul"),
]


@pytest.mark.parametrize(
    "make, w, b, op_type", CLIPS, ids=["value", "range", "norm", "global", "global wide"]
)
@pytest.mark.parametrize("passed", [True, False], ids=["passed", "set"])
def test_clips(make: Any, w: Any, b: Any, op_type: str, passed: bool) -> None:
    loss = linear()
    if not passed:
        clip.set_gradient_clip(make())
    _, pairs = fluid.optimizer.SGD(1.0, grad_clip=make() if passed else None).minimize(loss)
    assert [grad.name for _, grad in pairs] == ["w@GRAD", "b@GRAD"]
    moved = step("w", "b")
    np.testing.assert_allclose(1 - moved[0], w, rtol=1e-5)
    np.testing.assert_allclose(-moved[1], b, rtol=1e-5)
    clipped = [op for op in ops() if op.type == op_type]
    scope = "gradient_clip" if passed else "graident_clip_@CLIP"
    assert len(clipped) == 2 and all(scope in op.attr("op_namescope") for op in clipped)
    assert [op.role_vars[1] for op in ops() if op.type == "sgd"] == [op.output_arg_names[0] for op in clipped]


def test_need_clip() -> None:
    loss = linear()
    fluid.optimizer.SGD(
        1.0, grad_clip=clip.GradientClipByGlobalNorm(0.5, need_clip=lambda param: param.name == "b")
    ).minimize(loss)
    w, b = step("w", "b")
    np.testing.assert_allclose(w, 1 - W, rtol=1e-6)
    np.testing.assert_allclose(b, [-0.5], rtol=1e-6)


def test_clip_of_some_is_a_clip_of_none() -> None:
    """As in PaddlePaddle 1.8.5: set_gradient_clip for some parameters only has no effect."""
    loss = linear()
    clip.set_gradient_clip(clip.GradientClipByValue(0.1), param_list=["w"])
    with pytest.warns(fluid.FluidWarning, match="'b' has no clip while 'w' has one"):
        fluid.optimizer.SGD(1.0).minimize(loss)
    np.testing.assert_allclose(step("w")[0], 1 - W)


def test_each_parameter_is_clipped_by_its_own_clip() -> None:
    """As before 1.8; 1.8.5 takes the last one's for all."""
    loss = linear()
    clip.set_gradient_clip(clip.GradientClipByValue(0.01), ["w"])
    clip.set_gradient_clip(clip.GradientClipByValue(0.2), ["b"])
    fluid.optimizer.SGD(1.0).minimize(loss)
    w, b = step("w", "b")
    np.testing.assert_allclose(w, 1 - np.clip(W, -0.01, 0.01), rtol=1e-6)
    np.testing.assert_allclose(b, [-0.2], rtol=1e-6)


def test_clips_of_parameter_attributes() -> None:
    x = fluid.data("x", [4, 3])
    hidden = x
    for name, limit in (("first", 0.001), ("second", 0.1)):
        attr = fluid.ParamAttr(name=name, gradient_clip=clip.GradientClipByValue(limit))
        hidden = layers.fc(hidden, 2, bias_attr=False, param_attr=attr)
    fluid.optimizer.SGD(1.0).minimize(layers.mean(hidden))
    ops = [op for op in fluid.default_main_program().global_block().ops if op.type == "clip"]
    found = {op.input("X")[0]: round(op.attr("max"), 4) for op in ops}
    assert found == {"first@GRAD": 0.001, "second@GRAD": 0.1}


def test_groups_must_agree() -> None:
    loss = linear()
    clip.set_gradient_clip(clip.GradientClipByGlobalNorm(0.1, "one"), ["w"])
    clip.set_gradient_clip(clip.GradientClipByGlobalNorm(0.2, "one"), ["b"])
    with pytest.raises(ValueError, match="same group"):
        fluid.optimizer.SGD(1.0).minimize(loss)


def test_sparse_global_norm() -> None:
    """Rows that occur twice count as their sum."""
    ids = fluid.data("ids", [None, 1], "int64")
    table = layers.embedding(
        ids,
        [4, 2],
        is_sparse=True,
        param_attr=fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.0)),
    )
    fluid.optimizer.SGD(1.0, grad_clip=clip.GradientClipByGlobalNorm(1.0)).minimize(layers.reduce_sum(table))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = exe.run(feed={"ids": np.array([[2], [0], [2]])}, fetch_list=["table"])[0]
    np.testing.assert_allclose(-found, np.array([[1, 1], [0, 0], [2, 2], [0, 0]]) / np.sqrt(10), rtol=1e-6)


def test_error_clip() -> None:
    x = fluid.data("x", [None, 2], "float32")
    hidden = layers.scale(layers.fc(x, 1, param_attr="w", bias_attr=False), 3.0)
    fluid.default_main_program().global_block().var("fc_0.tmp_0").error_clip = clip.ErrorClipByValue(0.5)
    _, pairs = fluid.optimizer.SGD(1.0).minimize(layers.reduce_sum(hidden))
    np.testing.assert_allclose(step(pairs[0][1].name)[0], 0.5 * W)


@pytest.mark.parametrize(
    "made, text",
    [
        (clip.GradientClipByValue(3, -1), "Gradient Clip By Value, min = -1.000000, max=3.000000"),
        (clip.GradientClipByNorm(2.0), "Gradient Clip By Norm, clip_norm=2.000000"),
        (clip.GradientClipByGlobalNorm(2.0), "Gradient Clip By GlobalNorm, global_norm=2.000000"),
        (clip.ErrorClipByValue(2.0), "ByValue, min=-2.000000, max=2.000000"),
        (regularizer.L2Decay(0.1), "L2Decay, regularization_coeff=0.100000"),
        (regularizer.L1Decay(0.1), "L1Decay, regularization_coeff=0.100000"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_texts(made: Any, text: str) -> None:
    assert str(made) == text


# ---------------------------------------------------------------------- weight decay
DECAYS = [
    (regularizer.L2Decay(0.1), ["scale", "sum"], 0.1),
    (regularizer.L1Decay(0.3), ["sign", "scale", "sum"], 0.3),
]


@pytest.mark.parametrize("decay, types, added", DECAYS, ids=["L2", "L1"])
def test_decay(decay: Any, types: list[str], added: float) -> None:
    fluid.optimizer.SGD(1.0, regularization=decay).minimize(linear())
    assert [op.type for op in ops()] == types * 2 + ["sgd", "sgd"]
    assert all("/regularization" in op.attr("op_namescope") for op in ops() if op.type != "sgd")
    np.testing.assert_allclose(step("w")[0], 1 - W - added, rtol=1e-6)


def test_own_decay_wins() -> None:
    fluid.optimizer.SGD(1.0, regularization=regularizer.L2Decay(0.1)).minimize(
        linear(regularizer=regularizer.L1Decay(0.3))
    )
    np.testing.assert_allclose(step("w")[0], 1 - W - 0.3, rtol=1e-6)


def test_clip_comes_before_decay() -> None:
    fluid.optimizer.SGD(
        1.0, regularization=regularizer.L2Decay(0.5), grad_clip=clip.GradientClipByValue(0.1)
    ).minimize(linear())
    np.testing.assert_allclose(step("w")[0], np.full((2, 1), 0.4), rtol=1e-5)


def test_decay_makes_sparse_gradients_dense() -> None:
    ids = fluid.data("ids", [None, 1], "int64")
    table = layers.embedding(
        ids,
        [3, 2],
        is_sparse=True,
        param_attr=fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(2.0)),
    )
    fluid.optimizer.SGD(1.0, regularization=regularizer.L2Decay(0.25)).minimize(layers.reduce_sum(table))
    assert [op.input("Grad") for op in ops() if op.type == "sgd"] == [["table@GRAD@NEWGRAD@"]]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = exe.run(feed={"ids": np.array([[1], [1]])}, fetch_list=["table"])[0]
    np.testing.assert_allclose(found, [[1.5, 1.5], [-0.5, -0.5], [1.5, 1.5]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: clip.set_gradient_clip(3),
        lambda: (linear(), clip.set_gradient_clip(clip.GradientClipByNorm(1.0), [3])),
        lambda: (linear(), clip.set_gradient_clip(clip.GradientClipByNorm(1.0), ["nothing"])),
        lambda: clip.GradientClipByNorm(1.0, need_clip=3),
        lambda: clip.GradientClipByValue(-1.0),
        lambda: regularizer.L2Decay(None),
        lambda: fluid.optimizer.SGD(0.1, grad_clip=3),
    ],
)
def test_refusals(call: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        call()


def test_wrong_error_clip() -> None:
    loss = linear()
    fluid.default_main_program().global_block().var("fc_0.tmp_0").error_clip = 3
    with pytest.raises(TypeError, match="error_clip"):
        fluid.optimizer.SGD(0.1).minimize(loss)
