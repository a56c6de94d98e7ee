"""The magnitudes of what ops compute, learnt while training, for engines that quantise outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.contrib.slim.quantization.edits import GraphEditor, check_graph, load, output_names
from fluidlite.framework import IrGraph, IrVarNode

__all__ = ["OutScaleForInferencePass", "OutScaleForTrainingPass"]

OBSERVED = (
    *("conv2d", "depthwise_conv2d", "mul", "matmul", "relu", "leaky_relu", "relu6", "sigmoid", "tanh"),
    *("prelu", "swish", "softmax", "batch_norm", "elementwise_add", "pool2d", "reshape2", "transpose2"),
    *("concat", "elementwise_mul", "scale"),
)


def scale_name(name: str) -> str:
    """The variable that holds the magnitude of another one."""
    return f"{name}@scale"


class OutScaleForTrainingPass:
    """Has a moving average be kept of the largest magnitude of what each op computes: `x@scale` of x.

    Parameters
    ----------
    scope, place: where the new variables get their first values.
    moving_rate: the weight of the past.
    """

    def __init__(self, scope: Any = None, place: Any = None, moving_rate: float = 0.9) -> None:
        self._scope, self._place, self._moving_rate = scope, place, moving_rate

    def apply(self, graph: IrGraph) -> IrGraph:
        """Edit `graph`, and return it."""
        check_graph(graph)
        editor = GraphEditor(graph, self._scope, self._place)
        for op in editor.ops():
            if op.name() in OBSERVED:
                for name in output_names(op):
                    self._observe(editor, editor.output_node(op, name))
        graph.resolve_hazard()
        return graph

    def _observe(self, editor: GraphEditor, node: IrVarNode) -> None:
        if node.dtype() not in (VarType.FP32, VarType.FP64):
            return
        scale = editor.state(scale_name(node.name()), [1.0], node.dtype())
        inputs, outputs = {"X": node}, {"Out": editor.version(node), "OutScale": scale}
        if not editor.graph.is_test():
            for what, given, slot in (("state", "InState", "OutState"), ("accum", "InAccum", "OutAccum")):
                state = editor.state(unique_name.generate(f"scale_{what}@"), [1.0], node.dtype())
                inputs[given], outputs[slot] = state, editor.version(state)
        attrs = {"moving_rate": self._moving_rate, "is_test": editor.graph.is_test()}
        editor.insert("moving_average_abs_max_scale", attrs, inputs, outputs)


class OutScaleForInferencePass:
    """Writes the magnitudes that training has learnt into the ops' attribute `out_threshold`.

    Parameters
    ----------
    scope: where they are.
    """

    def __init__(self, scope: Any = None) -> None:
        self._scope = scope

    def apply(self, graph: IrGraph) -> IrGraph:
        """Edit `graph`, and return it; AssertionError where the scope lacks a magnitude."""
        check_graph(graph)
        assert self._scope is not None, "The scope cannot be set None."
        for op in graph.topology_sort():
            if op.name() in OBSERVED:
                for name in output_names(op):
                    found = load(self._scope, scale_name(name))
                    op.set_attr("out_threshold", float(np.ravel(found)[0]))
        graph.resolve_hazard()
        return graph
