"""Layers that look in from outside: `Print`, `Assert`, `py_func`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.ops.flow import debug

__all__ = ["Assert", "Print", "py_func"]


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """A copy of `input` that is printed to standard output when it is computed, and its gradient likewise.

    Prints at most `first_n` times (-1: always) and at most `summarize` elements (-1: all). `print_phase` is
    "forward", "backward" or "both".
    """
    check_variable_and_dtype(
        input, "input", ["float32", "float64", "int32", "int64", "bool"], "fluid.layers.Print"
    )
    helper = LayerHelper("print_" + input.name)
    output = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(
        type="print",
        inputs={"In": input},
        outputs={"Out": output},
        attrs={
            "first_n": first_n,
            "summarize": summarize,
            "message": message or "",
            "print_tensor_name": print_tensor_name,
            "print_tensor_type": print_tensor_type,
            "print_tensor_shape": print_tensor_shape,
            "print_tensor_lod": print_tensor_lod,
            "print_phase": print_phase.upper(),
        },
    )
    return output


def Assert(
    cond: Variable, data: Sequence[Variable] | None = None, summarize: int = 20, name: str | None = None
) -> Operator:
    """Stop the run with an error that shows `summarize` elements of each of `data` where `cond` is false."""
    check_variable_and_dtype(cond, "cond", ["bool"], "fluid.layers.Assert")
    check_type(data, "data", (list, tuple, type(None)), "fluid.layers.Assert")
    check_type(summarize, "summarize", int, "fluid.layers.Assert")
    check_type(name, "name", (str, type(None)), "fluid.layers.Assert")
    helper = LayerHelper(name or "assert_" + cond.name)
    return helper.append_op(
        type="assert", inputs={"Cond": cond, "Data": list(data or ())}, attrs={"summarize": summarize}
    )


# ---------------------------------------------------------------------- functions of the user's own
def _positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called without arguments where it takes none."""
    if function is None or not callable(function):
        raise TypeError("func must be a Python function")
    try:
        takes_none = not inspect.signature(function).parameters
    except ValueError:
        takes_none = False
    return (lambda *tensors: function()) if takes_none else function


def _listed(value: Any, name: str) -> list[Variable]:
    check_type(value, name, (list, tuple, Variable, type(None)), "py_func")
    if value is None:
        return []
    return [value] if isinstance(value, Variable) else list(value)


def _skipped(given: Any, known: set[str]) -> list[str]:
    names = [var.name for var in ([given] if isinstance(given, Variable) else given)]
    for name in names:
        if name not in known:
            raise ValueError(f"Variable {name} is not found in forward inputs and outputs")
    return list(dict.fromkeys(names))


def py_func(
    func: Callable[..., Any],
    x: Any,
    out: Any,
    backward_func: Callable[..., Any] | None = None,
    skip_vars_in_backward_input: Any = None,
) -> Any:
    """Write what `func` returns for the LoDTensors `x` to `out`, variables whose shapes and dtypes you
    declare.

    `backward_func` gets inputs, outputs and the outputs' gradients, except `skip_vars_in_backward_input`, and
    returns the gradients of the inputs; a gradient that does not exist comes as None. Functions are not saved
    with a program.
    """
    helper = LayerHelper("py_func")
    inputs, outputs = _listed(x, "X"), _listed(out, "Out")
    forward_id = debug.remember(_positional(func))
    backward_id = debug.remember(_positional(backward_func)) if backward_func is not None else -1
    for var in outputs:
        if len(var.shape) == 0:
            raise ValueError("Output shapes of py_func op should be provided by users manually")
    skipped: list[str] = []
    if backward_func is not None and skip_vars_in_backward_input is not None:
        skipped = _skipped(skip_vars_in_backward_input, {var.name for var in (*inputs, *outputs)})
    helper.append_op(
        type="py_func",
        inputs={"X": inputs},
        outputs={"Out": outputs},
        attrs={
            "forward_callable_id": forward_id,
            "backward_callable_id": backward_id,
            "backward_skip_vars": skipped,
        },
    )
    return out


py_func.registered_func = debug.remembered  # type: ignore[attr-defined]
py_func.registered_func_num = debug.remembered_count  # type: ignore[attr-defined]
