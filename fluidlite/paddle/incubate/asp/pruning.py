"""Pruning of weights to n zeros of m, and the optimizer that keeps these zeros.

`decorate(optimizer).minimize` appends, behind the optimizer's ops, a product of each weight and its mask, a
parameter `name.asp_mask` that begins as ones; `prune_model` writes weights and masks into the scope.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.program import Program, default_main_program, default_startup_program, program_guard
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.attributes import ParamAttr
from fluidlite.paddle.incubate.asp.masks import ALGORITHMS, mask_of
from fluidlite.paddle.methods import get_value, set_value
from fluidlite.paddle.nn.initializer import Constant
from fluidlite.paddle.nn.layer.base import Layer, snake_case
from fluidlite.paddle.static.variables import create_parameter
from fluidlite.values.scope import global_scope

__all__ = [
    "add_supported_layer",
    "calculate_density",
    "decorate",
    "prune_model",
    "reset_excluded_layers",
    "set_excluded_layers",
]

# weight, m, n, algorithm, name -> the pruned weight and its mask
Pruning: TypeAlias = Callable[[Array, int, int, str, str], tuple[Array, Array]]

_SUFFIX = ".asp_mask"


def _pruned(weight: Array, m: int, n: int, algorithm: str, name: str) -> tuple[Array, Array]:
    """The weight with its smallest elements 0; as it is where it sums over less than m elements."""
    summed = {2: 0, 4: 1}.get(weight.ndim)
    if summed is not None and weight.shape[summed] >= m:
        mask = mask_of(weight, n, m, algorithm)
        return weight * mask, mask
    warn_user(f"{name} stays as it is: of its shape {list(weight.shape)} no {m} elements meet in one sum")
    return weight, np.ones_like(weight)


# what 2.6.2 keeps for the whole process, too: names of layers or parameters, and parameters left out
_supported: dict[str, Pruning] = dict.fromkeys(("fc", "linear", "conv2d"), _pruned)
_excluded: weakref.WeakKeyDictionary[Program, set[str]] = weakref.WeakKeyDictionary()


def calculate_density(x: Array) -> float:
    """The share of elements of an array that are not 0."""
    return float(np.count_nonzero(x)) / np.asarray(x).size


def set_excluded_layers(param_names: Sequence[str], main_program: Program | None = None) -> None:
    """Leave parameters of these names as they are, in a program (the default main program)."""
    program = default_main_program() if main_program is None else main_program
    _excluded.setdefault(program, set()).update(param_names)


def reset_excluded_layers(main_program: Program | None = None) -> None:
    """Forget what `set_excluded_layers` was told of a program, or of all."""
    if main_program is None:
        _excluded.clear()
    else:
        _excluded.pop(main_program, None)


def add_supported_layer(layer: Any, pruning_func: Pruning | None = None) -> None:
    """Prune weights of another layer, too: its class, one of its kind, or what its parameters are called.

    `pruning_func(weight, m, n, algorithm, name)` returns the pruned weight and its mask.
    """
    kind = type(layer) if isinstance(layer, Layer) else layer
    if isinstance(kind, type) and issubclass(kind, Layer):
        kind = snake_case(kind.__name__)
    if not isinstance(kind, str):
        raise TypeError(f"layer must be a paddle.nn.Layer or a name, but is {layer!r}")
    _supported[kind] = pruning_func or _pruned


def _pruning_of(program: Program, name: str) -> Pruning | None:
    """How a parameter is pruned: as in 2.6.2, its name says of what layer it is a weight, `fc_0.w_0`."""
    base, _, rest = name.partition(".")
    if name in _excluded.get(program, ()) or "w_" not in rest or name.endswith(_SUFFIX):
        return None
    return _supported.get(base) or _supported.get(base.rpartition("_")[0])


def decorate(optimizer: Any) -> OptimizerWithSparsityGuarantee:
    """An optimizer that keeps the zeros of pruned weights."""
    return OptimizerWithSparsityGuarantee(optimizer)


class OptimizerWithSparsityGuarantee:
    """The given optimizer, with a mask behind each step of a weight that can be pruned."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """The optimizer's `minimize`, the masks, and the ops that lay them over the weights."""
        result = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        main = loss.block.program
        startup = default_startup_program() if startup_program is None else startup_program
        trained = {param.name for param, _ in result[1]}
        parameters = [one for one in main.all_parameters() if one.name in trained]
        weights = [one for one in parameters if _pruning_of(main, one.name)]
        with program_guard(main, startup):
            masks = [_mask_variable(weight) for weight in weights]
        for weight, mask in zip(weights, masks, strict=True):
            with main._optimized_guard([]):
                main.global_block().append_op(
                    type="elementwise_mul", inputs={"X": weight, "Y": mask}, outputs={"Out": weight}
                )
        return result


def _mask_variable(weight: Variable) -> Variable:
    attr = ParamAttr(weight.name + _SUFFIX, Constant(1.0), trainable=False)
    mask: Variable = create_parameter(weight.shape, weight.dtype, attr=attr)
    mask.stop_gradient = True
    return mask


def prune_model(
    model: Program | Layer, n: int = 2, m: int = 4, mask_algo: str = "mask_1d", with_mask: bool = True
) -> dict[str, Array]:
    """Weights of a program, or of a layer, with at least n zeros of every m, written into the global scope;
    the masks by the weights' names.

    mask_algo: "mask_1d" leaves m - n elements of every m; "mask_2d_greedy" and "mask_2d_best" leave n in each
        row and column of blocks [m, m], with n <= m - n: the largest first, or those of the largest sum.
    with_mask: the masks of `decorate(optimizer).minimize` are written, too, for the training that follows.
    """
    if mask_algo not in ALGORITHMS:
        raise AssertionError(f"'mask_algo' in prune_model must be in {[*ALGORITHMS]}, but is {mask_algo!r}")
    most = m if mask_algo == "mask_1d" else m // 2
    if not 0 <= n <= most:
        raise AssertionError(f"'n' in prune_model must be between 0 and {most} for m = {m}, but is {n}")
    program, parameters = _parameters_of(model)
    masks = {}
    for weight in parameters:
        prune = _pruning_of(program, weight.name)
        if prune is None:
            continue
        value, masks[weight.name] = prune(np.asarray(get_value(weight)), m, n, mask_algo, weight.name)
        set_value(weight, value)
        if with_mask:
            _write_mask(weight.name, masks[weight.name])
    return masks


def _parameters_of(model: Any) -> tuple[Program, list[Any]]:
    if isinstance(model, Program):
        return model, model.all_parameters()
    if not isinstance(model, Layer):
        raise TypeError(f"model should be a paddle.nn.Layer or a paddle.static.Program, but is {model!r}")
    parameters = model.parameters()
    return parameters[0].block.program if parameters else default_main_program(), parameters


def _write_mask(name: str, mask: Array) -> None:
    held = global_scope().find_var(name + _SUFFIX)
    if held is None:
        raise AssertionError(
            f"prune_model finds no variable {name + _SUFFIX!r} in the scope: call "
            "paddle.incubate.asp.decorate(optimizer).minimize(loss) and run the startup program before, or "
            "say with_mask=False"
        )
    held.get_tensor().set(mask)
