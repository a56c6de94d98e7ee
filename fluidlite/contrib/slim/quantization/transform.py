"""Quantisation while training: ops compute with values rounded as those of the quantised model will be.

Where a `conv2d` reads a value x, it reads `x.quantized.dequantized` afterwards, which `fake_quantize_*` and
`fake_dequantize_*` make of x. Gradient ops read the rounded value, too, and what they compute is taken for
the gradient of x: rounding counts as the identity there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.contrib.slim.quantization.edits import (
    GraphEditor,
    check_graph,
    check_supported,
    input_names,
    levels,
)
from fluidlite.contrib.slim.quantization.preprocess import Functions, Preprocessor
from fluidlite.framework import IrGraph, IrOpNode, IrVarNode

__all__ = ["AddQuantDequantPass", "QuantizationTransformPass", "activation_kinds", "weight_kinds"]

FIRST_SCALE = 0.001
COUNTER = "@STEP_COUNTER@"
KIND = "quantization_type"  # the attribute of ops that compute with rounded values
WEIGHTED = "qat_with_weight"
UNWEIGHTED = "qat_without_weight"

activation_kinds = ("abs_max", "range_abs_max", "moving_average_abs_max")
weight_kinds = ("abs_max", "channel_wise_abs_max", "range_abs_max", "moving_average_abs_max")


def check_kinds(activation: str, weight: str) -> None:
    """ValueError for a way of quantising that there is not; AssertionError for channels of activations."""
    assert activation != "channel_wise_abs_max", (
        "The activation quantization type does not support 'channel_wise_abs_max'."
    )
    if activation not in activation_kinds:
        raise ValueError(
            f"Unknown activation_quantize_type : '{activation}'. It can only be {_either(activation_kinds)}."
        )
    if weight not in weight_kinds:
        raise ValueError(f"Unknown weight_quantize_type: '{weight}'. It can only be {_either(weight_kinds)}.")


def _either(kinds: Sequence[str]) -> str:
    return " or ".join(f"'{kind}'" for kind in kinds)


def is_skipped(op: IrOpNode, patterns: Any) -> bool:
    """True if the name scope of an op matches one of the patterns, or the only one."""
    scope = op.desc().attr("op_namescope")
    return any(pattern in scope for pattern in ([patterns] if isinstance(patterns, str) else patterns))


def is_weighted(op: IrOpNode) -> bool:
    """True for an op whose weight and input are rounded already."""
    desc = op.desc()
    return bool(desc.has_attr(KIND) and desc.attr(KIND) == WEIGHTED)


class Quantizer:
    """The ops that round one value: by its kind, a quantising op with the state that it keeps, and an op that
    goes back to real numbers.

    Parameters
    ----------
    editor: the graph to edit.
    window_size: steps that `range_abs_max` looks back.
    moving_rate: the weight of the past in `moving_average_abs_max`.
    is_test: nothing is learned any more; scales come from the scope.
    """

    def __init__(self, editor: GraphEditor, window_size: int, moving_rate: float, is_test: bool) -> None:
        self.editor = editor
        self.window_size, self.moving_rate, self.is_test = window_size, moving_rate, is_test
        self.step: IrVarNode | None = None

    def count_steps(self) -> None:
        """Have the graph count its runs, for windows of scales; a counter that it has already is used."""
        graph = self.editor.graph
        self.step = next((node for node in graph.all_var_nodes() if node.name() == COUNTER), None)
        if self.step is None:
            before = graph.create_persistable_node(COUNTER, VarType.LOD_TENSOR, [1], VarType.INT64)
            self.editor.initialise(COUNTER, np.zeros(1, "int64"))
            self.step = self.editor.version(before)
            self.editor.insert("increment", {"step": 1.0}, {"X": before}, {"Out": self.step})

    def round(self, node: IrVarNode, name: str, bits: int, kind: str) -> IrVarNode:
        """`node` rounded to so many bits."""
        quantized = self.editor.temporary(f"{name}.quantized", node)
        channels = kind == "channel_wise_abs_max"
        scale = _QUANTIZE[kind](self, node, quantized, name, bits)
        real = self.editor.temporary(f"{name}.quantized.dequantized", node)
        op_type = "fake_channel_wise_dequantize_max_abs" if channels else "fake_dequantize_max_abs"
        attrs = {"quant_bits": [bits]} if channels else {"max_range": float(levels(bits))}
        scales = "Scales" if channels else "Scale"
        self.editor.insert(op_type, attrs, {"X": quantized, scales: scale}, {"Out": real})
        return real

    def by_this_value(self, node: IrVarNode, out: IrVarNode, name: str, bits: int) -> IrVarNode:
        """Round by the largest magnitude of this value; the scale."""
        scale = self.editor.temporary(f"{name}.scale", node, [1])
        outputs = {"Out": out, "OutScale": scale}
        self.editor.insert("fake_quantize_abs_max", {"bit_length": bits}, {"X": node}, outputs)
        return scale

    def by_channel(self, node: IrVarNode, out: IrVarNode, name: str, bits: int) -> IrVarNode:
        """Round each output channel by its own largest magnitude; the scales."""
        scale = self.editor.temporary(f"{name}.scale", node, node.shape()[:1])
        outputs = {"Out": out, "OutScale": scale}
        self.editor.insert("fake_channel_wise_quantize_abs_max", {"bit_length": bits}, {"X": node}, outputs)
        return scale

    def by_window(self, node: IrVarNode, out: IrVarNode, name: str, bits: int) -> IrVarNode:
        """Round by the largest magnitude of the last steps; the scale."""
        last = self.editor.state(f"{name}.scale", [FIRST_SCALE], node.dtype())
        scale = self.editor.version(last)
        attrs = {"window_size": self.window_size, "bit_length": bits, "is_test": self.is_test}
        inputs, outputs = {"X": node, "InScale": last}, {"Out": out, "OutScale": scale}
        if not self.is_test:
            window = unique_name.generate("scales")
            outputs["OutScales"] = self.editor.state(window, np.zeros(self.window_size), node.dtype())
            assert self.step is not None, "the pass has no step counter"
            inputs["Iter"] = self.step
        self.editor.insert("fake_quantize_range_abs_max", attrs, inputs, outputs)
        return scale

    def by_average(self, node: IrVarNode, out: IrVarNode, name: str, bits: int) -> IrVarNode:
        """Round by a moving average of the largest magnitude; the scale."""
        return self.average("fake_quantize_moving_average_abs_max", node, out, f"{name}.scale", bits, "")

    def average(
        self, op_type: str, node: IrVarNode, out: IrVarNode, scale_name: str, bits: int, prefix: str
    ) -> IrVarNode:
        """An op that rounds by a moving average of scales; the scale. Names of the average's state start with
        `prefix`.
        """
        inputs, outputs = {"X": node}, {"Out": out}
        if not self.is_test:
            for what, given, slot in (("state", "InState", "OutState"), ("accum", "InAccum", "OutAccum")):
                state = self.editor.state(unique_name.generate(prefix + what), [1.0], node.dtype())
                inputs[given], outputs[slot] = state, self.editor.version(state)
        last = self.editor.state(scale_name, [FIRST_SCALE], node.dtype())
        inputs["InScale"], outputs["OutScale"] = last, self.editor.version(last)
        attrs = {"bit_length": bits, "moving_rate": self.moving_rate, "is_test": self.is_test}
        self.editor.insert(op_type, attrs, inputs, outputs)
        return outputs["OutScale"]


_QUANTIZE: dict[str, Callable[[Quantizer, IrVarNode, IrVarNode, str, int], IrVarNode]] = {
    "abs_max": Quantizer.by_this_value,
    "channel_wise_abs_max": Quantizer.by_channel,
    "range_abs_max": Quantizer.by_window,
    "moving_average_abs_max": Quantizer.by_average,
}


def replace_in_gradients(
    editor: GraphEditor, ops: Sequence[IrOpNode], op_types: Sequence[str], rounded: dict[str, IrVarNode]
) -> None:
    """Have the gradient ops of `op_types` read the rounded values."""
    gradients = {f"{op_type}_grad" for op_type in op_types}
    for op in ops:
        if op.name() in gradients:
            for node in op.inputs:
                if node.name() in rounded and node.name() in op.input_arg_names():
                    editor.graph.update_input_link(node, rounded[node.name()], op)


class QuantizationTransformPass:
    """Has the ops that read a weight (`quantizable_op_type`) compute with rounded weights and inputs.

    Parameters
    ----------
    scope, place: where the new variables get their first values.
    weight_bits, activation_bits: bits of a weight and of any other value.
    activation_quantize_type, weight_quantize_type: where scales come from: `abs_max` (this value),
        `range_abs_max` (the largest of `window_size` steps), `moving_average_abs_max` (an average that
        forgets by `moving_rate`), for weights of convolutions also `channel_wise_abs_max`.
    skip_pattern: ops in name scopes that hold one of these are left alone.
    weight_quantize_func, act_quantize_func, weight_preprocess_func, act_preprocess_func: functions of a
        Variable that build ops in the place of, or in front of, those that round it.
    optimizer_func, executor: an optimizer for what these functions train, and the executor of their startup
        programs.
    """

    _supported_quantizable_op_type = ("conv2d", "depthwise_conv2d", "mul", "matmul")

    def __init__(
        self,
        scope: Any = None,
        place: Any = None,
        weight_bits: int = 8,
        activation_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        window_size: int = 10000,
        moving_rate: float = 0.9,
        skip_pattern: Any = ("skip_quant",),
        quantizable_op_type: Sequence[str] = ("conv2d", "depthwise_conv2d", "mul"),
        weight_quantize_func: Any = None,
        act_quantize_func: Any = None,
        weight_preprocess_func: Any = None,
        act_preprocess_func: Any = None,
        optimizer_func: Any = None,
        executor: Any = None,
    ) -> None:
        check_kinds(activation_quantize_type, weight_quantize_type)
        check_supported(quantizable_op_type, self._supported_quantizable_op_type)
        self._scope, self._place = scope, place
        self._weight_bits, self._activation_bits = weight_bits, activation_bits
        self._activation_quantize_type = activation_quantize_type
        self._weight_quantize_type = weight_quantize_type
        self._window_size, self._moving_rate = window_size, moving_rate
        self._skip_pattern = skip_pattern
        self._quantizable_ops = list(quantizable_op_type)
        self._functions = Functions(
            weight_preprocess_func, act_preprocess_func, weight_quantize_func, act_quantize_func
        )
        self._optimizer, self._exe = optimizer_func, executor

    def apply(self, graph: IrGraph) -> IrGraph:
        """Edit `graph`, and return it."""
        check_graph(graph)
        editor = self._editor(graph)
        quantizer = Quantizer(editor, self._window_size, self._moving_rate, graph.is_test())
        windows = "range_abs_max" in (self._activation_quantize_type, self._weight_quantize_type)
        if windows and not graph.is_test():
            quantizer.count_steps()
        ops = editor.ops()
        self._mark_skipped(ops)
        rounded: dict[str, IrVarNode] = {}
        preprocessor = Preprocessor(editor, self._functions, self._optimizer, self._exe)
        for op in ops:
            if op.name() in self._quantizable_ops and editor.has_weight(op) and not _is_marked(op):
                self._round_inputs(op, quantizer, preprocessor, rounded)
        replace_in_gradients(editor, ops, self._quantizable_ops, rounded)
        graph.resolve_hazard()
        return graph

    def _editor(self, graph: IrGraph) -> GraphEditor:
        return GraphEditor(graph, self._scope, self._place)

    def _mark(self, op: IrOpNode) -> None:
        op.set_attr(KIND, WEIGHTED)

    def _inputs(self, op: IrOpNode) -> list[IrVarNode]:
        return op.inputs

    def _mark_skipped(self, ops: Sequence[IrOpNode]) -> None:
        """Give ops that are left alone, and their gradient ops, an attribute that says so."""
        types = {*self._quantizable_ops, *(f"{op_type}_grad" for op_type in self._quantizable_ops)}
        for op in ops:
            if op.name() in types and is_skipped(op, self._skip_pattern):
                op.set_attr("skip_quant", 1)  # Paddle's files have a number

    def _round_inputs(
        self, op: IrOpNode, quantizer: Quantizer, preprocessor: Preprocessor, rounded: dict[str, IrVarNode]
    ) -> None:
        self._mark(op)
        for node in self._inputs(op):
            name = node.name()
            if name not in op.input_arg_names():
                continue  # a control variable
            if name not in rounded:
                rounded[name] = self._rounded(node, op, quantizer, preprocessor)
            quantizer.editor.graph.update_input_link(node, rounded[name], op)

    def _rounded(
        self, node: IrVarNode, op: IrOpNode, quantizer: Quantizer, preprocessor: Preprocessor
    ) -> IrVarNode:
        """`node`, rounded, for `op` and whoever reads it besides."""
        is_weight = node.name() in quantizer.editor.persistable
        name = node.name()
        made = preprocessor.quantize(node, op, is_weight)
        if made is not None:
            return made
        node = preprocessor.preprocess(node, op, is_weight)
        if not is_weight:
            return quantizer.round(node, name, self._activation_bits, self._activation_quantize_type)
        kind = self._weight_quantize_type
        if kind == "channel_wise_abs_max" and op.name() not in ("conv2d", "depthwise_conv2d"):
            kind = "abs_max"  # the first dimension of other weights is no output channel
        return quantizer.round(node, name, self._weight_bits, kind)


def _is_marked(op: IrOpNode) -> bool:
    return bool(op.desc().has_attr("skip_quant") and op.desc().attr("skip_quant"))


class AddQuantDequantPass:
    """Has ops that read no weight compute with rounded inputs, by moving averages of their scales.

    Parameters
    ----------
    scope, place: where the new variables get their first values.
    moving_rate: the weight of the past in the averages.
    quant_bits: bits of a value.
    skip_pattern: ops in name scopes that hold one of these are left alone.
    quantizable_op_type: the types of the ops; all that there are with `is_full_quantized`.
    """

    _activation_type = ("relu", "relu6", "leaky_relu", "tanh", "swish")
    _supported_quantizable_op_type = (
        *("pool2d", "elementwise_add", "concat", "softmax", "argmax", "transpose", "equal", "gather"),
        *("greater_equal", "greater_than", "less_equal", "less_than", "mean", "not_equal", "reshape"),
        *("reshape2", "bilinear_interp", "nearest_interp", "trilinear_interp", "slice", "squeeze"),
        *("elementwise_sub", "mul", "matmul", *_activation_type),
    )

    def __init__(
        self,
        scope: Any = None,
        place: Any = None,
        moving_rate: float = 0.9,
        quant_bits: int = 8,
        skip_pattern: Any = ("skip_quant",),
        quantizable_op_type: Sequence[str] = ("elementwise_add", "pool2d"),
        is_full_quantized: bool = False,
    ) -> None:
        self._scope, self._place = scope, place
        self._moving_rate, self._quant_bits = moving_rate, quant_bits
        self._skip_pattern = skip_pattern
        supported = self._supported_quantizable_op_type
        self._quantizable_op_type = list(supported if is_full_quantized else quantizable_op_type)
        check_supported(self._quantizable_op_type, supported)

    def apply(self, graph: IrGraph) -> IrGraph:
        """Edit `graph`, and return it."""
        check_graph(graph)
        editor = GraphEditor(graph, self._scope, self._place)
        quantizer = Quantizer(editor, 0, self._moving_rate, graph.is_test())
        ops = editor.ops()
        rounded: dict[str, IrVarNode] = {}
        for op in ops:
            if op.name() in self._quantizable_op_type and self._applies(editor, op):
                op.set_attr(KIND, UNWEIGHTED)
                op.set_attr("activation_bits", self._quant_bits)
                for name in input_names(op):
                    node = editor.input_node(op, name)
                    if name not in rounded:
                        rounded[name] = self._rounded(quantizer, node)
                    graph.update_input_link(node, rounded[name], op)
        replace_in_gradients(editor, ops, self._quantizable_op_type, rounded)
        graph.resolve_hazard()
        return graph

    def _applies(self, editor: GraphEditor, op: IrOpNode) -> bool:
        if is_skipped(op, self._skip_pattern) or is_weighted(op):
            return False
        return not any(name in editor.persistable for name in input_names(op))

    def _rounded(self, quantizer: Quantizer, node: IrVarNode) -> IrVarNode:
        out = quantizer.editor.temporary(f"{node.name()}.quant_dequant", node)
        quantizer.average(
            "fake_quantize_dequantize_moving_average_abs_max",
            node,
            out,
            f"{node.name()}.quant_dequant.scale",
            self._quant_bits,
            "quant_dequant.",
        )
        return out
