"""`fluid.layers.layer_function_generator`: layers, and their documentation, made from declarations of ops."""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from fluidlite.base import registry
from fluidlite.base.attr_types import AttrType
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.framework import OpProtoHolder
from fluidlite.ir.attributes import COMMON_TYPES
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.activations import FLOATS, append_unary

__all__ = ["autodoc", "deprecated", "generate_activation_fn", "generate_layer_fn", "templatedoc"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _convert_(name: str) -> str:
    """The name of a slot as an argument: `StatPosOut` -> `stat_pos_out`."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()


def _type_to_str_(tp: int) -> str:
    """The name of an attribute's type."""
    return AttrType(tp).name


def escape_math(text: str) -> str:
    """A text with its formulas as Sphinx marks them: `$x$` and `!!x!!` become roles and `$$x$$`."""
    inline = re.sub(r"(?<!\$)\$([^$]+)\$(?!\$)", r":math:`\1`", text)
    return re.sub(r"!!([^!]+)!!", r"$$\1$$", inline)


def generate_layer_fn(op_type: str) -> Callable[..., Variable]:
    """A layer that appends the op and returns its one output; ValueError for types with several outputs.

    Its arguments are the input slots in order or by their names (`x`, `y`), the op's attributes, `act`,
    `name`, and `out`, a variable for the output.
    """
    proto = OpProtoHolder.instance().get_op_proto(op_type)
    slot = _only_output(proto)
    hidden = [each.name for each in proto.outputs if each.intermediate]

    def layer(*args: Any, **kwargs: Any) -> Variable:
        helper = LayerHelper(op_type, **kwargs)
        inputs = _take_inputs(proto, list(args), kwargs)
        dtype: Any = _common_dtype(op_type, inputs)
        given = kwargs.pop(_convert_(slot), None) or []
        # numbers of temporaries: the output's comes before those that only the gradient reads
        out = (given if isinstance(given, list) else [given])[:1] or [_temporary(helper, dtype)]
        if not isinstance(out[0], Variable):
            raise ArgumentError(f"output of {op_type} must be variable, not {out[0]!r}")
        outputs = {slot: out, **{each: [_temporary(helper, dtype)] for each in hidden}}
        helper.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs=kwargs)
        return helper.append_activation(out[0])

    layer.__name__ = layer.__qualname__ = op_type
    layer.__doc__ = _generate_doc_string_(proto)
    return layer


def _temporary(helper: LayerHelper, dtype: Any) -> Variable:
    return helper.create_variable_for_type_inference(dtype)


def _only_output(proto: Any) -> str:
    shown = [slot for slot in proto.outputs if not slot.intermediate]
    if len(shown) != 1:
        raise ArgumentError(
            f"Only one non intermediate output operator can be automatically generated. {proto.type}"
        )
    if shown[0].duplicable:
        raise ArgumentError(f"Only non duplicable op can be automatically generated. {proto.type}")
    return str(shown[0].name)


def _take_inputs(proto: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, list[Variable]]:
    """The variables of each input slot; those given by name are taken out of `kwargs`."""
    inputs = {}
    for slot in proto.inputs:
        value = kwargs.pop(_convert_(slot.name), [])
        found = value if isinstance(value, list) else [value]
        if not found and args:
            found = [args.pop(0)]
        if not all(isinstance(each, Variable) for each in found):
            raise ArgumentError(f"input of {proto.type} must be variable")
        inputs[slot.name] = found
    return inputs


def _common_dtype(op_type: str, inputs: dict[str, list[Variable]]) -> VarType | None:
    """The dtype of all inputs, None where there are none; ValueError where they differ."""
    first: VarType | None = None
    for each in (var for found in inputs.values() for var in found):
        first = each.dtype if first is None else first
        if each.dtype != first:
            raise ArgumentError(f"operator {op_type} must input same dtype. {first} vs {each.dtype}")
    return first


def generate_activation_fn(op_type: str) -> Callable[..., Variable]:
    """The layer `f(x, name=None)` of an op `X -> Out`, its attributes at their defaults; TypeError where x is
    not of real numbers (of numbers, for abs, exp and square).
    """
    proto = OpProtoHolder.instance().get_op_proto(op_type)
    dtypes = ("int32", "int64", *FLOATS) if "X" not in registry.get(op_type).floating else FLOATS

    def layer(x: Variable, name: str | None = None) -> Variable:
        return append_unary(op_type, x, name, dtypes=dtypes)

    layer.__name__ = layer.__qualname__ = op_type
    layer.__doc__ = _generate_doc_string_(
        proto, ["name (str, optional): the prefix of the output's name."], {attr.name for attr in proto.attrs}
    )
    return layer


def deprecated(func_or_class: _Function) -> _Function:
    """Mark a function or class: each call warns with a DeprecationWarning."""

    @functools.wraps(func_or_class)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warn_user(f"API {func_or_class.__name__} is deprecated.", category=DeprecationWarning)
        return func_or_class(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def autodoc(comment: str = "") -> Callable[[_Function], _Function]:
    """Decorate a layer named like its op: its documentation is the op's, followed by `comment`."""

    def decorate(function: _Function) -> _Function:
        proto = OpProtoHolder.instance().get_op_proto(function.__name__)
        function.__doc__ = _generate_doc_string_(proto) + comment
        return function

    return decorate


def templatedoc(op_type: str | None = None) -> Callable[[_Function], _Function]:
    """Decorate a layer whose docstring is a template: `${comment}` stands for the op's description,
    `${x_comment}` and `${x_type}` for those of a slot or attribute. KeyError for other names.
    """

    def decorate(function: _Function) -> _Function:
        proto = OpProtoHolder.instance().get_op_proto(op_type or function.__name__)
        words = {"comment": proto.comment}
        for slot in (*proto.inputs, *proto.outputs):
            words[f"{_convert_(slot.name)}_type"] = "Variable"
        for attr in proto.attrs:
            words[f"{attr.name}_type"] = _type_to_str_(attr.type)
        for each in (*proto.attrs, *proto.outputs, *proto.inputs):
            words[f"{_convert_(each.name)}_comment"] = _about(each)
        function.__doc__ = string.Template(function.__doc__ or "").substitute(words)
        return function

    return decorate


def _about(part: Any) -> str:
    """The description of a slot or an attribute."""
    return part.comment or f"{part.name} of the operator"


def _generate_doc_string_(
    op_proto: Any,
    additional_args_lines: Iterable[str] | None = None,
    skip_attrs_set: Collection[str] | None = None,
) -> str:
    """The documentation of a layer of an op: its description, arguments and output.

    `skip_attrs_set` names attributes to leave out; attributes that every op has are left out always.
    """
    args = []
    for slot in op_proto.inputs:
        optional = "  Optional." if slot.dispensable else ""
        args.append(f"{_convert_(slot.name)}: {_about(slot)}.{optional}")
    skipped = {*COMMON_TYPES, *(skip_attrs_set or ()), "use_mkldnn", "use_cudnn"}
    args += [
        f"{attr.name} ({_type_to_str_(attr.type)}): {_about(attr)}."
        for attr in op_proto.attrs
        if attr.name not in skipped
    ]
    args += [str(line) for line in additional_args_lines or ()]
    shown = [slot for slot in op_proto.outputs if not slot.intermediate]
    returned = [f"{_about(slot)}." for slot in shown]
    lines = [op_proto.comment, "", "Args:", *(f"    {line}" for line in args), "", "Returns:"]
    return "\n".join(["", *lines, *(f"    {line}" for line in returned)])


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
