"""Parameters, variables of the whole program, metrics, and looking in: parts of `paddle.static`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fluidlite.backward import append_backward as fluid_append_backward
from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.base.registry import ZERO_DIM_ATTR
from fluidlite.contrib.layers import metric_op as metric_op_of_jobs
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers import metric_op
from fluidlite.layers.flow import debug
from fluidlite.layers.tensors import variables
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.shapes import constant

__all__ = [
    "Print",
    "accuracy",
    "append_backward",
    "auc",
    "create_global_var",
    "create_parameter",
    "ctr_metric_bundle",
    "xpu_places",
]


def append_backward(
    loss: Variable,
    parameter_list: Iterable[Variable | str] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
    callbacks: list[Callable[..., Any]] | None = None,
    checkpoints: list[Variable] | None = None,
    distop_context: Any = None,
) -> Any:
    """Append the ops that compute the gradients of `loss`; gives (parameter, gradient) pairs.

    `distop_context`, by which 2.x places ops on devices by itself, must be None.
    """
    if distop_context is not None:
        raise ValueError(
            "append_backward() does not support distop_context: use a mode of the transpiler to "
            "split programs"
        )
    return fluid_append_backward(loss, parameter_list, no_grad_set, callbacks, checkpoints)


def create_parameter(
    shape: Sequence[int],
    dtype: DTypeLike,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Any:
    """A parameter of the program, initialised by the startup program."""
    begin()
    return variables.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: DTypeLike,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable of the whole program that the startup program sets to `value`."""
    begin()
    return variables.create_global_var(shape, value, dtype, persistable, force_cpu, name)


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """The share of rows of `input` whose `label` [N, 1] is among the `k` largest, as a float32 of the shape
    []; `correct` and `total` receive the counts that it is made of.
    """
    helper = LayerHelper("accuracy")
    top = helper.create_variable_for_type_inference(input.dtype)
    places = helper.create_variable_for_type_inference(VarType.INT64)
    helper.append_op(
        type="top_k_v2",
        inputs={"X": [input]},
        outputs={"Out": [top], "Indices": [places]},
        attrs={"k": k, "sorted": False},
    )
    share = helper.create_variable_for_type_inference(VarType.FP32)
    correct = helper.create_variable_for_type_inference(VarType.INT32) if correct is None else correct
    total = helper.create_variable_for_type_inference(VarType.INT32) if total is None else total
    helper.append_op(
        type="accuracy",
        inputs={"Out": [top], "Indices": [places], "Label": [label]},
        outputs={"Accuracy": [share], "Correct": [correct], "Total": [total]},
        attrs={ZERO_DIM_ATTR: ["Accuracy", "Correct", "Total"]},
    )
    return share


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 4095,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Variable | None = None,
) -> tuple[Variable, Variable, list[Variable]]:
    """(AUC since the start, AUC of the last `slide_steps` batches, [the four states of both]); the areas are
    float64 of the shape []. `ins_tag_weight` must be None: all rows count alike.
    """
    if ins_tag_weight is not None:
        raise ValueError("auc() does not support weights: ins_tag_weight must be None")
    whole, batch, states = metric_op.auc(input, label, curve, num_thresholds, topk, slide_steps)
    for op in input.block.program.current_block().ops:
        if op.type == "auc" and op.output("AUC")[0] in (whole.name, batch.name):
            op._set_attr(ZERO_DIM_ATTR, ["AUC"])
            op.infer()
    return whole, batch, states


def ctr_metric_bundle(
    input: Variable, label: Variable, ins_tag_weight: Variable | None = None
) -> tuple[Variable, ...]:
    """Running sums over all batches: (squared errors, absolute errors, predictions, q = sigmoids of the
    predictions, labels, samples). `input` and `label` are [batch, 1] of float32; those of q and of samples
    are times the first row of `ins_tag_weight`, and [1, 1].
    """
    weight = constant([1, 1], "float32", 1.0) if ins_tag_weight is None else ins_tag_weight
    return metric_op_of_jobs.bundle(input, label, weight)


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """The same values, which each run prints; `print_tensor_layout` changes nothing, as there is one
    layout.
    """
    return debug.Print(
        input,
        first_n,
        message,
        summarize,
        print_tensor_name,
        print_tensor_type,
        print_tensor_shape,
        print_tensor_lod,
        print_phase,
    )


def xpu_places(device_ids: Sequence[int] | None = None) -> list[Any]:
    """ValueError: there are no kernels for XPU devices."""
    raise ValueError("xpu_places(): FluidLite has no kernels for XPU devices; use cpu_places or cuda_places")
