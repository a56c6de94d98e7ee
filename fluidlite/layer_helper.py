"""Helper of the layers: names, parameters with their initialisers, output variables, bias and activation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.layer_helper_base import LayerHelperBase
from fluidlite.param_attr import ParamAttr

__all__ = ["LayerHelper"]


class LayerHelper(LayerHelperBase):
    """Appends a layer of type `layer_type` to the default main program; `kwargs` are the layer's
    arguments.
    """

    def __init__(self, layer_type: str, **kwargs: Any) -> None:
        self.kwargs = kwargs
        name = kwargs.get("name")
        super().__init__(unique_name.generate(layer_type) if name is None else name, layer_type)

    def append_op(self, **op: Any) -> Operator:
        """Append an op to the block that is being written."""
        return self.block.append_op(**op)

    # ------------------------------------------------------------------ arguments
    def multiple_input(self, input_param_name: str = "input") -> list[Variable]:
        """The layer's input as a list; ArgumentError if one is not a Variable."""
        given = self.kwargs.get(input_param_name, [])
        inputs = list(given) if isinstance(given, (list, tuple)) else [given]
        for value in inputs:
            if not isinstance(value, Variable):
                raise ArgumentError(
                    f"The type of input value is invalid, expected type is 'Variable', but received "
                    f"{type(value)}"
                )
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

    def get_parameter(self, name: str) -> Parameter:
        """The parameter called `name`; ValueError where it is none."""
        param = self.main_program.global_block().var(name)
        if not isinstance(param, Parameter):
            raise ValueError(f"no Parameter name {name} found")
        return param

    # ------------------------------------------------------------------ what many layers end with
    def append_bias_op(self, input_var: Variable, dim_start: int = 1, dim_end: int | None = None) -> Variable:
        """Add a bias of the shape of dimensions [dim_start, dim_end); the input itself when `bias_attr` is
        False.
        """
        size = list(input_var.shape[dim_start:dim_end])
        bias_attr = self.bias_attr
        if not bias_attr:
            return input_var
        bias = self.create_parameter(attr=bias_attr, shape=size, dtype=input_var.dtype, is_bias=True)
        out = self.create_variable_for_type_inference(dtype=input_var.dtype)
        self.append_op(
            type="elementwise_add",
            inputs={"X": [input_var], "Y": [bias]},
            outputs={"Out": [out]},
            attrs={"axis": dim_start},
        )
        return out

    def append_activation(self, input_var: Variable) -> Variable:
        """Apply the activation named by `act`."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        if not isinstance(act, str):
            raise TypeError(f"{act} should be unicode or str")
        attrs = {}
        for flag in ("use_cudnn", "use_mkldnn"):
            if self.kwargs.get(flag):
                attrs[flag] = self.kwargs[flag]
        out = self.create_variable_for_type_inference(dtype=input_var.dtype)
        self.append_op(type=act, inputs={"X": [input_var]}, outputs={"Out": [out]}, attrs=attrs)
        return out


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
