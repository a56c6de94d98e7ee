"""What layers make: parameters with their initialisers, and variables."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.ir.variable import Variable
from fluidlite.param_attr import ParamAttr, WeightNormParamAttr

__all__ = ["LayerHelperBase"]


class LayerHelperBase:
    """Makes parameters and variables under the name of a layer."""

    def __init__(self, name: str, layer_type: str) -> None:
        self.name, self.layer_type = name, layer_type

    @property
    def main_program(self) -> Program:
        """Where ops go."""
        return default_main_program()

    @property
    def startup_program(self) -> Program:
        """Where initialisers go."""
        return default_startup_program()

    @property
    def block(self) -> Block:
        """The block that is being written."""
        return self.main_program.current_block()

    # ------------------------------------------------------------------ parameters and variables
    def create_parameter(
        self,
        attr: Any,
        shape: Sequence[int],
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
        stop_gradient: bool = False,
        type: VarType = VarType.LOD_TENSOR,
    ) -> Any:
        """A parameter of the main program, initialised in the startup program; None when `attr` is False."""
        attr = copy.deepcopy(attr)
        attr = ParamAttr._to_attr(attr)
        if not attr:
            return None
        suffix = "b" if is_bias else "w"
        if attr.name is None:
            attr.name = unique_name.generate(".".join([self.name, suffix]))
        if default_initializer is None and attr.initializer is None:
            attr._set_default_bias_initializer() if is_bias else attr._set_default_param_initializer()
        else:
            attr._set_default_initializer(default_initializer)
        if isinstance(attr, WeightNormParamAttr):
            from fluidlite.layers.neural.weight_norm import create_weight_normalized

            return create_weight_normalized(self, attr, shape, dtype)
        self.startup_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs(with_initializer=True)
        )
        param = self.main_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs()
        )
        param.stop_gradient = stop_gradient
        return param

    def create_variable_for_type_inference(
        self, dtype: Any, stop_gradient: bool = False, shape: Sequence[int] | None = None
    ) -> Variable:
        """A temporary `<layer>.tmp_N`, whose shape the op that writes it will set."""
        return self.block.create_var(
            name=unique_name.generate(".".join([self.name, "tmp"])),
            dtype=dtype,
            shape=shape,
            type=VarType.LOD_TENSOR,
            persistable=False,
            stop_gradient=stop_gradient,
        )

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        """A variable of the block that is being written."""
        return self.block.create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, *args: Any, **kwargs: Any) -> Variable:
        """A variable of the global block."""
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name: str, *args: Any, **kwargs: Any) -> tuple[Variable, bool]:
        """The global variable `name`, and whether it is new."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var: Variable, initializer: Any) -> Variable:
        """Initialise `var` in the startup program; returns the startup program's variable."""
        return self.startup_program.global_block().create_var(
            type=var.type,
            name=var.name,
            dtype=var.dtype,
            shape=var.shape,
            persistable=True,
            initializer=initializer,
        )
