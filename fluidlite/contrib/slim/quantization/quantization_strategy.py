"""`fluid.contrib.slim.quantization.quantization_strategy`: training with quantised values for some epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite import io
from fluidlite.compat.graph import ProgramGraph
from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper
from fluidlite.contrib.slim.quantization.quantization_pass import (
    ConvertToInt8Pass,
    QuantizationFreezePass,
    QuantizationTransformPass,
    TransformForMobilePass,
)
from fluidlite.contrib.slim.strategy import Strategy
from fluidlite.executor.executor import Executor, scope_guard
from fluidlite.framework import IrGraph

__all__ = ["QuantizationStrategy"]


class QuantizationStrategy(Strategy):
    """Trains with quantised values from one epoch to another, and saves the model then.

    Parameters
    ----------
    float_model_save_path, mobile_model_save_path, int8_model_save_path: folders of the models with whole
        numbers as real ones, for Paddle's engine for phones, and with integers; None for those that nobody
        needs.
    activation_bits, weight_bits, activation_quantize_type, weight_quantize_type: see
        `QuantizationTransformPass`.
    save_in_nodes, save_out_nodes: names of the variables that go in and come out of the models; those of the
        evaluation graph by default.
    """

    def __init__(
        self,
        start_epoch: int = 0,
        end_epoch: int = 0,
        float_model_save_path: str | None = None,
        mobile_model_save_path: str | None = None,
        int8_model_save_path: str | None = None,
        activation_bits: int = 8,
        weight_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        save_in_nodes: Sequence[str] | None = None,
        save_out_nodes: Sequence[str] | None = None,
    ) -> None:
        super().__init__(start_epoch, end_epoch)
        self.float_model_save_path = float_model_save_path
        self.mobile_model_save_path = mobile_model_save_path
        self.int8_model_save_path = int8_model_save_path
        self.activation_bits, self.weight_bits = activation_bits, weight_bits
        self.activation_quantize_type = activation_quantize_type
        self.weight_quantize_type = weight_quantize_type
        self.save_in_nodes, self.save_out_nodes = save_in_nodes, save_out_nodes

    def restore_from_checkpoint(self, context: Any) -> None:
        """Quantise the graphs again where a run was stopped in between."""
        if self.start_epoch < context.epoch_id <= self.end_epoch:
            self._modify_graph_for_quantization(context)

    def _modify_graph_for_quantization(self, context: Any) -> None:
        context.eval_graph = self._quantized(context.eval_graph, context, True)
        context.optimize_graph = self._quantized(context.optimize_graph, context, False)
        context.put("quantization_test_graph", context.eval_graph)

    def _quantized(self, graph: GraphWrapper, context: Any, for_test: bool) -> GraphWrapper:
        edited = IrGraph(ProgramGraph(graph.program.desc), for_test=for_test)
        QuantizationTransformPass(
            scope=context.scope,
            place=context.place,
            weight_bits=self.weight_bits,
            activation_bits=self.activation_bits,
            activation_quantize_type=self.activation_quantize_type,
            weight_quantize_type=self.weight_quantize_type,
        ).apply(edited)
        program = edited.to_program()
        program._copy_param_info_from(graph.program)
        return GraphWrapper(program, graph.in_nodes, graph.out_nodes)

    def on_epoch_begin(self, context: Any) -> None:
        """Begin to train with quantised values."""
        if context.epoch_id == self.start_epoch:
            self._modify_graph_for_quantization(context)

    def on_epoch_end(self, context: Any) -> None:
        """Save the models after the last epoch."""
        if context.epoch_id != self.end_epoch:
            return
        graph = IrGraph(ProgramGraph(context.eval_graph.program.desc), for_test=True)
        QuantizationFreezePass(
            context.scope, context.place, self.weight_bits, self.activation_bits, self.weight_quantize_type
        ).apply(graph)
        frozen = graph.to_program()
        self._save(graph, context, self.float_model_save_path)
        if self.int8_model_save_path or self.mobile_model_save_path:
            ConvertToInt8Pass(context.scope, context.place).apply(graph)
            self._save(graph, context, self.int8_model_save_path)
            TransformForMobilePass().apply(graph)
            self._save(graph, context, self.mobile_model_save_path)
        context.eval_graph = GraphWrapper(frozen, context.eval_graph.in_nodes, context.eval_graph.out_nodes)

    def _save(self, graph: IrGraph, context: Any, path: str | None) -> None:
        if path is None:
            return
        program = graph.to_program()
        outs = self.save_out_nodes or list(context.eval_graph.out_nodes.values())
        ins = self.save_in_nodes or list(context.eval_graph.in_nodes.values())
        targets = [program.global_block().var(name) for name in outs]
        with scope_guard(context.scope):
            io.save_inference_model(path, list(ins), targets, Executor(context.place), main_program=program)
