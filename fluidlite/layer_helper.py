"""What layers share: names, parameters with their initialisers, output variables, bias and activation."""
from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.dtypes import VarType
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.param_attr import ParamAttr, WeightNormParamAttr

__all__ = ["LayerHelper"]


class LayerHelper:
    """Appends a layer of type `layer_type` to the default main program; `kwargs` are the layer's arguments."""

    def __init__(self, layer_type: str, **kwargs: Any) -> None:
        self.layer_type = layer_type
        self.kwargs = kwargs
        name = kwargs.get("name")
        self.name: str = unique_name.generate(layer_type) if name is None else name

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

    def append_op(self, **op: Any) -> Operator:
        """Append an op to the block that is being written."""
        return self.block.append_op(**op)

    # ------------------------------------------------------------------ arguments
    def multiple_input(self, input_param_name: str = "input") -> list[Variable]:
        """The layer's input as a list; TypeError where one is no Variable."""
        given = self.kwargs.get(input_param_name, [])
        inputs = list(given) if isinstance(given, (list, tuple)) else [given]
        for value in inputs:
            if not isinstance(value, Variable):
                raise TypeError(f"The type of input value is invalid, expected type is 'Variable', but received {type(value)}")
        return inputs

    def input(self, input_param_name: str = "input") -> Variable:
        """The layer's only input."""
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError(f"{self.layer_type} layer only takes one input")
        return inputs[0]

    def input_dtype(self, input_param_name: str = "input") -> VarType:
        """The dtype that all inputs share."""
        dtypes = [var.dtype for var in self.multiple_input(input_param_name)]
        for dtype in dtypes[1:]:
            if dtype != dtypes[0]:
                raise ValueError(f"Data Type mismatch: {dtypes[0]} to {dtype}")
        return dtypes[0]

    @property
    def param_attr(self) -> Any:
        """The layer's `param_attr` as a ParamAttr, False, or a list of them."""
        return ParamAttr._to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self) -> Any:
        """The layer's `bias_attr` as a ParamAttr, or False."""
        return ParamAttr._to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int) -> list[Any]:
        """One ParamAttr for each of `length` inputs."""
        attr = self.param_attr
        attrs = attr if isinstance(attr, list) else [attr]
        if len(attrs) != 1 and len(attrs) != length:
            raise ValueError("parameter number mismatch")
        return [copy.deepcopy(attrs[0]) for _ in range(length)] if len(attrs) == 1 else attrs

    def iter_inputs_and_params(self, input_param_name: str = "input") -> Iterator[tuple[Variable, Any]]:
        """Each input with the ParamAttr of its parameter."""
        inputs = self.multiple_input(input_param_name)
        yield from zip(inputs, self.multiple_param_attr(len(inputs)), strict=True)

    def is_instance(self, param_name: str, cls: type) -> None:
        """TypeError unless the argument is a `cls`."""
        if not isinstance(self.kwargs.get(param_name), cls):
            raise TypeError(f"The input {param_name} parameter of method {self.layer_type} must be {cls}")

    # ------------------------------------------------------------------ parameters and variables
    def create_parameter(self, attr: Any, shape: Sequence[int], dtype: Any = None, is_bias: bool = False,
                         default_initializer: Any = None, stop_gradient: bool = False,
                         type: VarType = VarType.LOD_TENSOR) -> Any:
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
            from fluidlite.layers.weight_norm import create_weight_normalized
            return create_weight_normalized(self, attr, shape, dtype)
        self.startup_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs(with_initializer=True))
        param = self.main_program.global_block().create_parameter(dtype=dtype, shape=shape, type=type, **attr._to_kwargs())
        param.stop_gradient = stop_gradient
        return param

    def get_parameter(self, name: str) -> Parameter:
        """The parameter called `name`; ValueError where it is none."""
        param = self.main_program.global_block().var(name)
        if not isinstance(param, Parameter):
            raise ValueError(f"no Parameter name {name} found")
        return param

    def create_variable_for_type_inference(self, dtype: Any, stop_gradient: bool = False,
                                           shape: Sequence[int] | None = None) -> Variable:
        """A temporary `<layer>.tmp_N`, whose shape the op that writes it will set."""
        return self.block.create_var(name=unique_name.generate(".".join([self.name, "tmp"])), dtype=dtype, shape=shape,
                                     type=VarType.LOD_TENSOR, persistable=False, stop_gradient=stop_gradient)

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
            type=var.type, name=var.name, dtype=var.dtype, shape=var.shape, persistable=True, initializer=initializer)

    # ------------------------------------------------------------------ what many layers end with
    def append_bias_op(self, input_var: Variable, dim_start: int = 1, dim_end: int | None = None) -> Variable:
        """Add a bias of the shape of dimensions [dim_start, dim_end); the input itself when `bias_attr` is False."""
        size = list(input_var.shape[dim_start:dim_end])
        bias_attr = self.bias_attr
        if not bias_attr:
            return input_var
        bias = self.create_parameter(attr=bias_attr, shape=size, dtype=input_var.dtype, is_bias=True)
        out = self.create_variable_for_type_inference(dtype=input_var.dtype)
        self.append_op(type="elementwise_add", inputs={"X": [input_var], "Y": [bias]}, outputs={"Out": [out]},
                       attrs={"axis": dim_start})
        return out

    def append_activation(self, input_var: Variable) -> Variable:
        """Apply the activation named by `act`: a name, or a dict with "type" and attributes."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        if isinstance(act, str):
            act = {"type": act}
        if not isinstance(act, Mapping):
            raise TypeError(f"{act} should be unicode or str")
        attrs = dict(act)
        kind = attrs.pop("type")
        for flag in ("use_cudnn", "use_mkldnn"):
            if self.kwargs.get(flag):
                attrs[flag] = self.kwargs[flag]
        out = self.create_variable_for_type_inference(dtype=input_var.dtype)
        self.append_op(type=kind, inputs={"X": [input_var]}, outputs={"Out": [out]}, attrs=attrs)
        return out
