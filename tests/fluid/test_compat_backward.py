"""Backward passes held to what PaddlePaddle 1.8.5 was seen to do: arguments, steps under Paddle's names,
what is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import backward, core, layers


def net() -> tuple[Any, Any, Any]:
    """Input, hidden layer and loss of two layers; a third layer leads nowhere."""
    x = fluid.data("x", [None, 3], "float32")
    hidden = layers.fc(x, 4, act="relu")
    layers.fc(hidden, 2)
    return x, hidden, layers.mean(layers.fc(hidden, 1))


def block() -> Any:
    return fluid.default_main_program().global_block()


def types(ops: Any) -> list[str]:
    return [op.type for op in ops]


ALL = ["fc_0.w_0", "fc_0.b_0", "fc_2.w_0", "fc_2.b_0"]


# ---------------------------------------------------------------------- arguments of append_backward
@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        (None, ALL),
        (["fc_2.w_0"], ["fc_2.w_0"]),
        (("fc_2.b_0", "fc_0.w_0"), ["fc_2.b_0", "fc_0.w_0"]),
        ({"fc_0.w_0"}, ["fc_0.w_0"]),
        ([], []),
    ],
)
def test_parameter_list(parameters: Any, wanted: list[str]) -> None:
    """Pairs come in the order of the list; a parameter may be given as a Variable."""
    pairs = backward.append_backward(net()[2], parameters)
    assert [(param.name, grad.name) for param, grad in pairs] == [(name, name + "@GRAD") for name in wanted]


@pytest.mark.parametrize("bad", ["fc_0.w_0", [1], [None], {"a": 1}])
def test_parameter_list_of_a_wrong_type(bad: Any) -> None:
    with pytest.raises(TypeError):
        backward.append_backward(net()[2], bad)


@pytest.mark.parametrize("kind", [set, list, tuple])
def test_no_grad_set(kind: Callable[[Any], Any]) -> None:
    """Names or Variables; the gradient stops there, and what lies behind gets none."""
    _, hidden, loss = net()
    assert [param.name for param, _ in backward.append_backward(loss, no_grad_set=kind([hidden]))] == [
        "fc_2.w_0",
        "fc_2.b_0",
    ]


@pytest.mark.parametrize("bad", ["x", frozenset("x"), {"a": 1}, 1, [1]])
def test_no_grad_set_of_a_wrong_type(bad: Any) -> None:
    loss = net()[2]
    for call in (
        lambda: backward.append_backward(loss, no_grad_set=bad),
        lambda: backward.gradients(loss, loss, no_grad_set=bad),
        lambda: fluid.optimizer.SGD(0.1).minimize(loss, no_grad_set=bad),
    ):
        with pytest.raises(TypeError, match="no_grad_set"):
            call()


@pytest.mark.parametrize(("loss", "error"), [("x", TypeError), (None, TypeError), ([1], TypeError)])
def test_losses_of_a_wrong_type(loss: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        backward.append_backward(loss)


def test_a_loss_that_nothing_makes() -> None:
    with pytest.raises(ValueError, match="loss.op is None"):
        backward.append_backward(fluid.data("loss", [1], "float32"))


@pytest.mark.parametrize(("callbacks", "error"), [(3, TypeError), ((print,), TypeError), ([3], ValueError)])
def test_callbacks_of_a_wrong_type(callbacks: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        backward.append_backward(net()[2], callbacks=callbacks)


def test_a_callback_sees_each_gradient_op() -> None:
    seen: list[str] = []
    backward.append_backward(
        net()[2], callbacks=[lambda block, context: seen.append(context["__current_op_desc__"].type())]
    )
    assert seen == [
        "mean_grad",
        "elementwise_add_grad",
        "mul_grad",
        "relu_grad",
        "elementwise_add_grad",
        "mul_grad",
    ]


def test_error_clips_follow_what_they_clip() -> None:
    _, hidden, loss = net()
    hidden.error_clip = fluid.clip.ErrorClipByValue(0.1)
    backward.append_backward(loss, callbacks=[fluid.clip.error_clip_callback])
    ops = types(block().ops)
    assert ops[ops.index("mul_grad") : ops.index("mul_grad") + 3] == ["mul_grad", "clip", "relu_grad"]
    assert (
        str(fluid.clip.ErrorClipByValue(-1)) == "ByValue, min=1.000000, max=-1.000000"
    )  # 1.8.5 checks nothing here


# ---------------------------------------------------------------------- arguments of gradients
def test_gradients_of_wrong_arguments() -> None:
    x, hidden, loss = net()
    other = fluid.data("other", [None, 5], "float32")
    for arguments, error in (
        ((str, x), TypeError),
        ((loss, "x"), TypeError),
        (((loss,), x), TypeError),
        ((loss, x, "t"), TypeError),
        ((loss, None), TypeError),
        ((loss, x, [loss, loss]), ValueError),
        ((hidden, x, other), ValueError),
    ):
        with pytest.raises(error):
            backward.gradients(*arguments)  # type: ignore[arg-type]


def test_gradients_give_none_without_influence() -> None:
    x, hidden, _ = net()
    x.stop_gradient = False
    other = fluid.data("other", [None, 3], "float32")
    other.stop_gradient = False
    found = fluid.gradients(hidden, [other, x])
    assert found[0] is None
    assert found[1] is not None
    assert found[1].name == "x@GRAD"


def test_repeated_passes_name_gradients_anew() -> None:
    """The second pass writes `x@GRAD_0` for the loss and `grad/grad/...` for the rest."""
    loss = net()[2]
    backward.append_backward(loss)
    assert fluid.default_main_program()._appending_grad_times == 1
    backward.append_backward(loss)
    written = {name for op in block().ops for name in op.output_arg_names}
    assert {f"{loss.name}@GRAD", f"{loss.name}@GRAD_0", "grad/grad/fc_0.w_0@GRAD"} <= written


# ---------------------------------------------------------------------- steps under Paddle's names
GRADIENT = [
    ("x", "x", "x@GRAD", False),
    ("x@GRAD", "x", "x@GRAD@GRAD", True),
    ("x@GRAD@GRAD", "x", "x@GRAD@GRAD@GRAD", True),
    ("grad/grad/x@GRAD", "grad/grad/x", "grad/grad/x@GRAD@GRAD", True),
    ("x@GRAD@RENAME@block0@1", "x", "x@GRAD@RENAME@block0@1@GRAD", True),
    ("", "", "@GRAD", False),
]


@pytest.mark.parametrize(("name", "stripped", "appended", "is_gradient"), GRADIENT)
def test_names(name: str, stripped: str, appended: str, is_gradient: bool) -> None:
    assert backward._strip_grad_suffix_(name) == stripped
    assert backward._append_grad_suffix_(name) == appended
    assert backward._is_grad_var_(name) == is_gradient


def test_small_helpers() -> None:
    assert backward._rename_grad_name_("x@GRAD", 2) == "grad/grad/x@GRAD"
    assert [backward._some_in_set_(cands, {"a"}) for cands in (["a", "b"], ["c"], [])] == [True, False, False]
    assert [backward._all_in_set_(cands, {"a"}) for cands in (["a", "b"], ["a"], [])] == [False, True, False]
    assert [backward._as_list(value) for value in (None, 1, (1, 2), [3])] == [[], [1], [1, 2], [3]]
    assert [backward._get_no_grad_set_name(value) for value in (None, ["a"], ("a",), {"a"})] == [
        set(),
        {"a"},
        {"a"},
        {"a"},
    ]


PATHS: list[tuple[str, list[str], set[str], list[str]]] = [
    ("all", [], set(), ["mul", "elementwise_add", "relu", "mul", "elementwise_add", "mean"]),
    ("from hidden", ["fc_0.tmp_2"], set(), ["mul", "elementwise_add", "mean"]),
    ("from x", ["x"], set(), ["mul", "elementwise_add", "relu", "mul", "elementwise_add", "mean"]),
    ("cut", ["x"], {"fc_0.tmp_1"}, []),
    ("cut at hidden", [], {"fc_0.tmp_2"}, ["mul", "elementwise_add", "mean"]),
]


@pytest.mark.parametrize(
    ("inputs", "no_grad", "wanted"), [case[1:] for case in PATHS], ids=[case[0] for case in PATHS]
)
def test_paths(inputs: list[str], no_grad: set[str], wanted: list[str]) -> None:
    loss = net()[2]
    assert (
        types(backward._find_op_path_(block(), [loss], [block().var(name) for name in inputs], no_grad))
        == wanted
    )


def test_variables_without_gradients() -> None:
    x = fluid.data("x", [4, 6], "float32")
    first, _, _ = layers.split(layers.fc(x, 6), 3, dim=1)
    loss = layers.mean(first)
    assert backward._get_stop_gradients_(fluid.default_main_program()) == {0: {"x@GRAD"}}
    path = backward._find_op_path_(block(), [loss], [], set())
    assert types(path) == ["mul", "elementwise_add", "split", "mean"]
    assert backward._find_no_grad_vars(block(), path, [loss], set()) == {"split_0.tmp_1", "split_0.tmp_2"}
    assert backward._get_output_names(block(), [loss]) == {loss.name}
    with pytest.raises(AssertionError):
        backward._get_stop_gradients_(None)  # type: ignore[arg-type]


def test_sub_blocks() -> None:
    x = fluid.data("x", [4, 6], "float32")
    x.stop_gradient = False
    out = layers.cond(layers.reduce_sum(x) > 0.0, lambda: layers.square(x), lambda: layers.scale(x, 2.0))
    loss = layers.mean(out)
    main = fluid.default_main_program()
    outer, inner = main.block(0), main.block(1)
    assert backward._is_ancestor_block(outer, inner)
    assert not backward._is_ancestor_block(inner, outer)
    assert dict(backward._get_son_parent_block_idx_dict(main, 1)) == {1: 0, 0: -1}
    parent = backward._find_parent_op_(inner)
    assert parent is not None
    assert parent.type() == "conditional_block"
    assert types(backward._get_sub_block_path(inner, parent, set())) == ["square", "assign"]
    assert types(backward._find_op_path_(outer, [loss], [], set())) == [
        "conditional_block",
        "conditional_block",
        "cast",
        "select_input",
        "mean",
    ]


def test_a_pass_step_by_step() -> None:
    """The steps of a backward pass, called one by one, write what append_backward writes."""
    loss = net()[2]
    no_grad = backward._get_stop_gradients_(fluid.default_main_program())
    path = backward._find_op_path_(
        block(), [loss], [], {backward._strip_grad_suffix_(name) for name in no_grad[0]}
    )
    start, grad_of, found = len(block().ops), {}, {}  # type: ignore[var-annotated]
    fill = backward._create_loss_op_desc_(loss)
    assert (fill.output("Out"), fill.attr("op_role"), fill.attr("value")) == ([loss.name + "@GRAD"], 257, 1.0)
    block().desc.append_op().copy_from(fill)
    backward._append_backward_ops_(block(), path, block(), no_grad, grad_of)
    backward._rename_grad_(block(), start, grad_of, {})
    backward._append_backward_vars_(block(), start, grad_of, found)
    assert types(block().ops[start:]) == [
        "fill_constant",
        "mean_grad",
        "elementwise_add_grad",
        "mul_grad",
        "relu_grad",
        "elementwise_add_grad",
        "mul_grad",
    ]
    assert {name: grad for name, (grad, _) in found.items() if name in ALL} == {
        name: name + "@GRAD" for name in ALL
    }


def test_descriptions() -> None:
    """Partial gradients are renamed and summed; what nobody needs is cut, and read as zeros."""
    make = backward._create_op_desc_
    ops = [
        make("relu_grad", {"Out": ["a"], "Out@GRAD": ["a@GRAD"]}, {"X@GRAD": ["x@GRAD"]}, {}),
        make("tanh_grad", {"Out": ["b"], "Out@GRAD": ["b@GRAD"]}, {"X@GRAD": ["x@GRAD"]}, {}),
        make("relu_grad", {"Out": ["x"], "Out@GRAD": ["x@GRAD"]}, {"X@GRAD": ["y@GRAD"]}, {}),
    ]
    summed = backward._addup_repetitive_outputs_(ops, 0)
    assert [(op.type(), op.output_arg_names()) for op in summed] == [
        ("relu_grad", ["x@GRAD@RENAME@block0@0"]),
        ("tanh_grad", ["x@GRAD@RENAME@block0@1"]),
        ("sum", ["x@GRAD"]),
        ("relu_grad", ["y@GRAD"]),
    ]
    backward._rename_arg_(summed, "y@GRAD", "z@GRAD")
    assert summed[3].output_arg_names() == ["z@GRAD"]
    assert summed[0].attr("op_role") == int(core.op_proto_and_checker_maker.OpRole.Backward)
    cut = backward._remove_no_grad_branch_(summed, {"z@GRAD", "b@GRAD"})
    assert [op.type() for op in cut] == ["relu_grad", "fill_zeros_like", "sum"]


def test_a_gradient_looks_like_its_variable() -> None:
    block().create_var(name="ids", shape=[-1, 2], dtype="int64")
    for name in ("ids@GRAD", "unknown@GRAD"):
        block().create_var(name=name)
        backward._infer_var_data_type_shape_(name, block())
    assert (block().var("ids@GRAD").shape, block().var("ids@GRAD").dtype) == (
        (-1, 2),
        core.VarDesc.VarType.INT64,
    )
    assert block().var("unknown@GRAD").dtype == core.VarDesc.VarType.FP32


# ---------------------------------------------------------------------- what is written where
def test_gradients_of_a_program_that_is_not_current() -> None:
    """The ops go into the program of the loss, not into the one being built."""
    other = fluid.Program()
    with fluid.program_guard(other, fluid.Program()):
        loss = net()[2]
    backward.append_backward(loss)
    assert "mul_grad" in types(other.global_block().ops)
    assert not block().ops


def test_one_variable_read_twice() -> None:
    x = fluid.data("x", [None, 3], "float32")
    x.stop_gradient = False
    total = layers.elementwise_add(x, x)
    product = layers.elementwise_mul(total, x)
    backward.append_backward(layers.mean(layers.sums([product, product, x])))
    last = block().ops[-1]
    assert (last.type, last.input("X"), last.output("Out")) == (
        "sum",
        [f"x@GRAD@RENAME@block0@{i}" for i in range(4)],
        ["x@GRAD"],
    )
    given = np.array([[1.0, 2.0, 3.0]], "float32")
    found = fluid.Executor(fluid.CPUPlace()).run(feed={"x": given}, fetch_list=["x@GRAD"])[0]
    np.testing.assert_allclose(found, (8 * given + 1) / 3, rtol=1e-6)
