"""After training: weights as rounded numbers, and then as integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.contrib.slim.quantization.edits import (
    GraphEditor,
    check_graph,
    levels,
    load,
    output_names,
    quantized_values,
    store,
)
from fluidlite.framework import IrGraph, IrOpNode, IrVarNode

__all__ = ["ConvertToInt8Pass", "QuantizationFreezePass", "TransformForMobilePass"]

QUANTIZABLE = ("conv2d", "depthwise_conv2d", "mul", "matmul")
CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
QUANTIZING = (
    "fake_quantize_abs_max",
    "fake_quantize_range_abs_max",
    "fake_quantize_moving_average_abs_max",
    "fake_channel_wise_quantize_abs_max",
)
DEQUANTIZING = ("fake_dequantize_max_abs", "fake_channel_wise_dequantize_max_abs")


def _need(scope: Any, place: Any) -> None:
    assert scope is not None, "The scope cannot be set None."
    assert place is not None, "The place cannot be set None."


class QuantizationFreezePass:
    """Makes a graph that `QuantizationTransformPass` edited compute with integers.

    Weights become the integers that they were rounded to, in the scope, and the ops read the quantised
    inputs themselves. An op behind each turns what it computes into real numbers again: `x.dequantized`.

    Parameters
    ----------
    scope, place: where the weights are.
    weight_bits, activation_bits, weight_quantize_type, quantizable_op_type: as given to the other pass.
    """

    def __init__(
        self,
        scope: Any,
        place: Any,
        weight_bits: int = 8,
        activation_bits: int = 8,
        weight_quantize_type: str = "abs_max",
        quantizable_op_type: Sequence[str] | None = None,
    ) -> None:
        _need(scope, place)
        self._scope, self._place = scope, place
        self._weight_bits, self._activation_bits = weight_bits, activation_bits
        self._weight_quantize_type = weight_quantize_type
        self._weight_scales: dict[str, Any] = {}  # by the name of the weight
        self._value_scales: dict[str, IrVarNode] = {}  # by the name of the quantised value

    def apply(self, graph: IrGraph) -> IrGraph:
        """Edit `graph` and the weights in the scope, and return the graph."""
        check_graph(graph)
        editor = GraphEditor(graph, self._scope, self._place)
        for op in editor.ops():
            if op.name() in QUANTIZING:
                self._freeze(editor, op)
        made = [(op, self._dequantize(editor, op)) for op in editor.ops() if self._is_quantized(op)]
        for op, real in made:
            for reader in editor.output_node(op, output_names(op)[0]).outputs:
                if reader not in real.inputs and not reader.name().endswith("_grad"):
                    old = editor.output_node(op, output_names(op)[0])
                    graph.update_input_link(old, real, reader)
        editor.remove_unused_variables()
        graph.resolve_hazard()
        return graph

    def _is_quantized(self, op: IrOpNode) -> bool:
        names = op.input_arg_names()
        return (
            op.name() in QUANTIZABLE
            and any(name in self._weight_scales for name in names)
            and any(name in self._value_scales for name in names)
        )

    def _freeze(self, editor: GraphEditor, op: IrOpNode) -> None:
        """Remove the ops that round one value to and fro; of another value than a weight, the second only."""
        source = editor.input_node(op, op.input("X")[0])
        quantized = editor.output_node(op, op.output("Out")[0])
        name = source.name()
        if name in editor.persistable:
            if name not in self._weight_scales:
                self._weight_scales[name] = self._round_weight(name, op)
            self._skip(editor, quantized, source)
            editor.graph.safe_remove_nodes(op)
            return
        self._value_scales[quantized.name()] = editor.output_node(op, op.output("OutScale")[0])
        self._skip(editor, quantized, quantized)

    def _skip(self, editor: GraphEditor, quantized: IrVarNode, instead: IrVarNode) -> None:
        """Have readers of the real numbers made of `quantized` read `instead`."""
        for back in quantized.outputs:
            if back.name() not in DEQUANTIZING:
                continue
            real = editor.output_node(back, back.output("Out")[0])
            for reader in real.outputs:
                if real.name() in reader.input_arg_names():
                    editor.graph.update_input_link(real, instead, reader)
            editor.graph.safe_remove_nodes(back)

    def _round_weight(self, name: str, op: IrOpNode) -> Any:
        """The scale, or scales by channel, of a weight, which becomes integers."""
        values = load(self._scope, name)
        if op.name() == "fake_channel_wise_quantize_abs_max":
            scale = np.abs(values).reshape(len(values), -1).max(1)
        elif op.name() == "fake_quantize_abs_max":
            scale = np.abs(values).max()
        else:  # learnt over many steps
            scale = load(self._scope, op.output("OutScale")[0]).reshape(-1)[0]
        store(self._scope, self._place, name, quantized_values(values, scale, self._weight_bits))
        return scale

    def _dequantize(self, editor: GraphEditor, op: IrOpNode) -> IrVarNode:
        """An op behind `op` that makes real numbers of its product of whole ones; what it makes."""
        names = op.input_arg_names()
        scale = next(self._weight_scales[name] for name in names if name in self._weight_scales)
        value_scale = next(self._value_scales[name] for name in names if name in self._value_scales)
        out = editor.output_node(op, output_names(op)[0])
        real = editor.temporary(f"{out.name()}.dequantized", out)
        if np.ndim(scale):
            channels = editor.state(unique_name.generate("channel_scale"), scale, out.dtype())
            bits = {"quant_bits": [self._weight_bits, self._activation_bits]}
            inputs = {"X": out, "Scales": [channels, value_scale]}
            editor.insert("fake_channel_wise_dequantize_max_abs", bits, inputs, {"Out": real})
            return real
        product = levels(self._weight_bits) * levels(self._activation_bits)
        attrs = {"max_range": float(product / scale)}
        inputs = {"X": out, "Scale": value_scale}
        editor.insert("fake_dequantize_max_abs", attrs, inputs, {"Out": real})
        return real


class ConvertToInt8Pass:
    """Makes the weights of a frozen graph integers: `w.int8` in the scope, in the place of `w`.

    Parameters
    ----------
    scope, place: where the weights are.
    quantizable_op_type: the types of the ops whose weights they are; by default all that there are.
    """

    def __init__(self, scope: Any, place: Any, quantizable_op_type: Sequence[str] | None = None) -> None:
        _need(scope, place)
        self._scope, self._place = scope, place
        self._types = QUANTIZABLE if quantizable_op_type is None else tuple(quantizable_op_type)

    def apply(self, graph: IrGraph) -> IrGraph:
        """Edit `graph` and the scope, and return the graph."""
        check_graph(graph)
        editor = GraphEditor(graph, self._scope, self._place)
        made: dict[str, IrVarNode] = {}
        for op in editor.ops():
            if op.name() not in self._types or op.desc().has_attr("skip_quant"):
                continue
            for node in op.inputs:
                if node.name() in editor.persistable and node.name() in op.input_arg_names():
                    if node.name() not in made:
                        made[node.name()] = self._convert(graph, node)
                    graph.update_input_link(node, made[node.name()], op)
        editor.remove_unused_variables()
        graph.resolve_hazard()
        return graph

    def _convert(self, graph: IrGraph, node: IrVarNode) -> IrVarNode:
        name = f"{node.name()}.int8"
        store(self._scope, self._place, name, load(self._scope, node.name()).astype("int8"))
        return graph.create_persistable_node(name, node.type(), node.shape(), VarType.INT8)


class TransformForMobilePass:
    """Calls the ops of a frozen graph as Paddle's engine for phones does: `quantize` and `dequantize`."""

    def apply(self, graph: IrGraph) -> IrGraph:
        """Edit `graph`, and return it."""
        check_graph(graph)
        for op in graph.all_op_nodes():
            if op.name() in QUANTIZING:
                op.set_type("quantize")
            elif op.name() in DEQUANTIZING:
                op.set_type("dequantize")
        graph.resolve_hazard()
        return graph
