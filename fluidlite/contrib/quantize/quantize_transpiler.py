"""`fluid.contrib.quantize.quantize_transpiler`: the passes of `contrib.slim.quantization` over programs."""

from __future__ import annotations

from typing import Any

from fluidlite.compat.graph import ProgramGraph
from fluidlite.contrib.slim.quantization.edits import GraphEditor
from fluidlite.contrib.slim.quantization.freeze import ConvertToInt8Pass, QuantizationFreezePass
from fluidlite.contrib.slim.quantization.transform import COUNTER, QuantizationTransformPass
from fluidlite.executor.executor import global_scope
from fluidlite.framework import (
    IrGraph,
    IrOpNode,
    IrVarNode,
    Parameter,
    Program,
    default_main_program,
    default_startup_program,
)
from fluidlite.initializer import Constant

__all__ = ["QuantizeTranspiler"]

KINDS = ("abs_max", "range_abs_max", "moving_average_abs_max")
_ENDINGS = (".quantized.dequantized", ".quantized", ".dequantized", ".scale")


def _original_var_name(var_name: str) -> str:
    """The name of the variable that was quantized, of one that quantization made; other names as they are."""
    ending = next((ending for ending in _ENDINGS if var_name.endswith(ending)), "")
    return var_name.removesuffix(ending)


class _StartupEditor(GraphEditor):
    """A graph whose new variables get their first values from ops of a startup program."""

    def __init__(self, graph: IrGraph, startup: Program) -> None:
        super().__init__(graph, None, None)
        self.startup = startup

    def initialise(self, name: str, array: Any) -> None:
        """Fill a variable with its first value, the same everywhere in it; scales are parameters."""
        block = self.startup.global_block()
        facts = {"name": name, "shape": array.shape, "dtype": str(array.dtype)}
        make = block.create_parameter if name.endswith(".scale") else block.create_var
        var = make(**facts, persistable=True, trainable=False)
        Constant(float(array.flat[0]), force_cpu=name == COUNTER)(var, block)


class _TransformPass(QuantizationTransformPass):
    """The pass, with a startup program in the place of a scope; ops are not marked."""

    def __init__(self, startup: Program, **options: Any) -> None:
        super().__init__(skip_pattern=(), **options)
        self._startup = startup

    def _editor(self, graph: IrGraph) -> GraphEditor:
        return _StartupEditor(graph, self._startup)

    def _mark(self, op: IrOpNode) -> None:
        """Do nothing: Paddle's transpiler is older than the attribute."""

    def _inputs(self, op: IrOpNode) -> list[IrVarNode]:
        return op.inputs[::-1]  # Paddle's puts each input's ops in front of those of the one before


class QuantizeTranspiler:
    """Rewrites programs in place: to train with quantised values, and then to compute with them.

    Parameters
    ----------
    weight_bits, activation_bits: bits of a weight and of any other value.
    activation_quantize_type, weight_quantize_type: where scales come from, see `QuantizationTransformPass`.
    window_size, moving_rate: steps that `range_abs_max` looks back, and the weight of the past in averages.
    """

    def __init__(
        self,
        weight_bits: int = 8,
        activation_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        window_size: int = 10000,
        moving_rate: float = 0.9,
    ) -> None:
        for what, kind in (("weight", weight_quantize_type), ("activation", activation_quantize_type)):
            if kind not in KINDS:
                known = " or ".join(f"'{one}'" for one in KINDS)
                raise ValueError(f"Unknown {what}_quantize_type: '{kind}'. It can only be {known}.")
        self.weight_bits, self.activation_bits = weight_bits, activation_bits
        self.activation_quantize_type = activation_quantize_type
        self.weight_quantize_type = weight_quantize_type
        self.window_size, self.moving_rate = window_size, moving_rate

    def training_transpile(
        self, program: Program | None = None, startup_program: Program | None = None
    ) -> None:
        """Have the program compute with rounded weights and values.

        What the scales need is initialised in the startup program. By default these are the default programs.
        """
        program = default_main_program() if program is None else program
        startup = default_startup_program() if startup_program is None else startup_program
        edit = _TransformPass(
            startup,
            weight_bits=self.weight_bits,
            activation_bits=self.activation_bits,
            activation_quantize_type=self.activation_quantize_type,
            weight_quantize_type=self.weight_quantize_type,
            window_size=self.window_size,
            moving_rate=self.moving_rate,
        )
        _rewrite(program, edit)
        program._copy_param_info_from(startup)
        for var in program.global_block().vars.values():
            if var.name == COUNTER or (isinstance(var, Parameter) and not var.trainable):
                var.stop_gradient = True

    def freeze_program(self, program: Program, place: Any, scope: Any = None) -> None:
        """Make weights integers, in the scope (by default the global one), for inference."""
        scope = global_scope() if scope is None else scope
        _rewrite(
            program,
            QuantizationFreezePass(
                scope, place, self.weight_bits, self.activation_bits, self.weight_quantize_type
            ),
        )

    def convert_to_int8(self, program: Program, place: Any, scope: Any = None) -> None:
        """Make the weights of a frozen program integers: `w.int8` in the place of `w`."""
        _rewrite(program, ConvertToInt8Pass(global_scope() if scope is None else scope, place))


def _rewrite(program: Program, edit: Any) -> None:
    """Put what a pass makes of a program in its place; parameters stay parameters."""
    original = program.clone()
    program.adopt(edit.apply(IrGraph(ProgramGraph(program.desc))).to_program())
    program._copy_param_info_from(original)
