"""Clipping: of gradients before the updates, and of the errors that flow back through a variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded
from fluidlite.ir.operator import ROLE_VAR_ATTR, Operator, OpRole
from fluidlite.ir.program import Program, default_main_program, name_scope
from fluidlite.ir.variable import Parameter, Variable, is_part, refuse_part
from fluidlite.ir.warned import warn_user
from fluidlite.layers.arithmetic.elementwise import clip as clip_by_value
from fluidlite.layers.arithmetic.elementwise import (
    clip_by_norm,
    elementwise_div,
    elementwise_max,
    elementwise_mul,
)
from fluidlite.layers.arithmetic.reduce import reduce_sum
from fluidlite.layers.ops import sqrt, square
from fluidlite.layers.tensors.constants import fill_constant
from fluidlite.layers.tensors.search import get_tensor_from_selected_rows, merge_selected_rows
from fluidlite.layers.tensors.variables import sums

__all__ = [
    "BaseErrorClipAttr",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "ErrorClipByValue",
    "GradientClipBase",
    "GradientClipByGlobalNorm",
    "GradientClipByNorm",
    "GradientClipByValue",
    "append_gradient_clip_ops",
    "error_clip_callback",
    "set_gradient_clip",
]

ParamsGrads = list[tuple[Any, Any]]


# ---------------------------------------------------------------------- errors on their way back
class BaseErrorClipAttr:
    """Base of the values of `Variable.error_clip`."""

    def _append_clip_op(self, block: Block, grad_name: str) -> None:
        raise TypeError(f"{type(self).__name__} does not define how to clip {grad_name!r}")


class ErrorClipByValue(BaseErrorClipAttr):
    """Keeps the gradient of a variable within [min, max] as it flows on; `min` is -max unless given."""

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"ByValue, min={self.min:f}, max={self.max:f}"

    def _append_clip_op(self, block: Block, grad_name: str) -> None:
        # adopted as it is, without a role: so PaddlePaddle writes it, and the gradient is not declared yet
        op = Operator(
            block,
            type="clip",
            inputs={"X": grad_name},
            outputs={"Out": grad_name},
            attrs={"min": self.min, "max": self.max},
        )
        block.adopt(len(block.ops), op)


def error_clip_callback(block: Block, context: dict[str, str]) -> None:
    """The callback of `append_backward` that clips what the newest op made, as `Variable.error_clip` says.

    `context` maps the names of gradients to the names of their variables.
    """
    for name in [name for name in block.ops[-1].output_arg_names if name in context]:
        forward = block._var_recursive(context[name])
        clip = forward.error_clip
        if not (clip is None or isinstance(clip, BaseErrorClipAttr)):
            raise TypeError("Variable's error_clip should be an instance of BaseErrorClipAttr or None.")
        if clip is not None:
            clip._append_clip_op(block, name)


# ---------------------------------------------------------------------- gradients of parameters
class GradientClipBase:
    """A clip for `grad_clip=` of an optimizer; `need_clip(param)` says which parameters it is for
    (default: all). Those with `ParamAttr(need_clip=False)` of 2.x keep their gradients in any case.
    """

    def __init__(self, need_clip: Callable[[Any], bool] | None = None) -> None:
        if need_clip is not None and not callable(need_clip):
            raise TypeError(
                "The type of need_clip must be funciton: it takes a parameter and returns whether to clip "
                f"it, but received {need_clip!r}"
            )
        self._need_clip_func = need_clip

    def __call__(self, params_grads: ParamsGrads) -> ParamsGrads:
        """Write the clipping ops; gives the pairs with the clipped gradients, without parameters that have
        none.
        """
        params_grads = [(param, grad) for param, grad in params_grads if grad is not None]
        with name_scope("gradient_clip"):
            clipped = self._static_clip(params_grads)
        changed = {
            param.name: new.name
            for (param, new), (_, old) in zip(clipped, params_grads, strict=True)
            if new is not old
        }
        _rename_in_roles(params_grads, changed)
        return clipped

    def _wants(self, param: Any) -> bool:
        # only parameters say it, and lists of pairs may hold other variables
        if isinstance(param, Parameter) and not param.need_clip:
            return False
        return self._need_clip_func is None or bool(self._need_clip_func(param))

    def _static_clip(self, params_grads: ParamsGrads) -> ParamsGrads:
        """The clipping ops, each parameter on its own."""
        pairs: ParamsGrads = []
        for param, grad in params_grads:
            if not self._wants(param):
                pairs.append((param, grad))
                continue
            with param.block.program._optimized_guard([param, grad]):
                pairs.append(self._create_operators(param, grad))
        return pairs

    def _process_context(self, context: dict[str, Any], param: Any, grad: Any) -> None:
        """Collect what `_create_operators` needs of the other parameters (set_gradient_clip only)."""

    def _create_operators(self, param: Any, grad: Any) -> tuple[Any, Any]:
        """The ops that clip one gradient."""
        raise TypeError(f"{type(self).__name__} does not define how to clip {grad.name!r}")


class GradientClipByValue(GradientClipBase):
    """Keeps each element of a gradient within [min, max]; `min` is -max unless given."""

    def __init__(
        self, max: float, min: float | None = None, need_clip: Callable[[Any], bool] | None = None
    ) -> None:
        super().__init__(need_clip)
        if min is None and max <= 0:
            raise ArgumentError(f"max must be positive when min is not given, but it is {max}")
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"Gradient Clip By Value, min = {self.min:f}, max={self.max:f}"

    def _create_operators(self, param: Any, grad: Any) -> tuple[Any, Any]:
        return param, clip_by_value(x=grad, min=self.min, max=self.max)


class GradientClipByNorm(GradientClipBase):
    """Scales a gradient down to the L2 norm `clip_norm` where its norm is larger."""

    def __init__(self, clip_norm: float, need_clip: Callable[[Any], bool] | None = None) -> None:
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def _create_operators(self, param: Any, grad: Any) -> tuple[Any, Any]:
        refuse_part(param, "GradientClipByNorm")
        return param, clip_by_norm(x=grad, max_norm=self.clip_norm)


class GradientClipByGlobalNorm(GradientClipBase):
    """Scales all gradients by the same factor, so that the L2 norm of them all is at most `clip_norm`.

    With `set_gradient_clip`, parameters with the same `group_name` share one norm.
    """

    def __init__(
        self,
        clip_norm: float,
        group_name: str = "default_group",
        need_clip: Callable[[Any], bool] | None = None,
    ) -> None:
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def _static_clip(self, params_grads: ParamsGrads) -> ParamsGrads:
        squares, last = [], None
        for param, grad in params_grads:
            last = (param, grad)
            if self._wants(param):
                with param.block.program._optimized_guard([param, grad]):
                    squares.append(_squared_norm(param, grad))
        if last is None or not squares:
            return params_grads
        with last[0].block.program._optimized_guard(last):
            norm = sqrt(x=sums(squares))
            limit = fill_constant(shape=[1], dtype=norm.dtype, value=self.clip_norm)
            factor = _factor(limit, norm)
        pairs: ParamsGrads = []
        for param, grad in params_grads:
            if not self._wants(param):
                pairs.append((param, grad))
                continue
            with param.block.program._optimized_guard([param, grad]):
                pairs.append((param, elementwise_mul(x=grad, y=factor)))
        return pairs

    def _process_context(self, context: dict[str, Any], param: Any, grad: Any) -> None:
        group = context.get(self.group_name)
        if group is None:
            limit = fill_constant(shape=[1], dtype=grad.dtype, value=self.clip_norm)
            group = context[self.group_name] = {
                "clip_norm": self.clip_norm,
                "limit": limit,
                "squares": [],
                "factor": None,
            }
        elif group["clip_norm"] != self.clip_norm:
            raise ValueError("All parameters' 'clip_norm' of a same group should be the same")
        group["squares"].append(_squared_norm(param, grad))
        self.context = context

    def _create_operators(self, param: Any, grad: Any) -> tuple[Any, Any]:
        group = self.context[self.group_name]
        if group["factor"] is None:
            group["factor"] = _factor(group["limit"], sqrt(x=sums(group["squares"])))
        return param, elementwise_mul(x=grad, y=group["factor"])


def _factor(limit: Variable, norm: Variable) -> Variable:
    """limit / max(limit, norm)"""
    return elementwise_div(x=limit, y=elementwise_max(x=limit, y=norm))


def _squared_norm(param: Any, grad: Any) -> Any:
    if grad.type == VarType.SELECTED_ROWS:  # rows of the same number count once, as their sum
        grad = get_tensor_from_selected_rows(merge_selected_rows(grad))
    total = reduce_sum(square(grad))
    if not is_part(param):
        return total
    # each rank has a part of the parameter, and the norm is that of all parts
    whole = total.block.create_var(
        name=unique_name.generate(f"{grad.name}_norm"), shape=total.shape, dtype=total.dtype
    )
    given = {"ring_id": 0, "use_calc_stream": True}
    total.block.append_op(type="mp_allreduce_sum", inputs={"X": total}, outputs={"Out": whole}, attrs=given)
    return whole


def _rename_in_roles(params_grads: ParamsGrads, changed: dict[str, str]) -> None:
    """The clipping ops of a parameter name its clipped gradient in `op_role_var`."""
    for param, grad in params_grads:
        if grad is None or param.name not in changed:
            continue
        for op in param.block.program.global_block().ops:
            names = op.role_vars
            if names and names[0] == param.name and "gradient_clip" in op.attrs.get("op_namescope", ""):
                op._set_attr(ROLE_VAR_ATTR, [param.name, changed[param.name]])


# ---------------------------------------------------------------------- the way of old
def set_gradient_clip(
    clip: GradientClipBase,
    param_list: Iterable[Parameter | str] | None = None,
    program: Program | None = None,
) -> None:
    """Make `clip` the clip of the parameters in `param_list` (all of `program` by default), for optimizers
    without `grad_clip`.
    """
    if not isinstance(clip, GradientClipBase):
        raise TypeError("'clip' should be an instance of GradientClipBase's derived class")
    block = (program or default_main_program()).global_block()
    params: list[Any] = block.all_parameters() if param_list is None else list(param_list)
    if any(isinstance(item, str) for item in params):
        params = [block.var(item) if isinstance(item, str) else item for item in params]
    if not all(isinstance(param, Parameter) for param in params):
        raise TypeError("'param_list' should be a list of Parameter or basestring(parameter's name).")
    updates = [op for op in block.ops if op.role & OpRole.Optimize]
    moved = {name for op in updates for name in op.outputs.get("ParamOut", ())}
    late = [param.name for param in params if param.name in moved]
    if late:
        warn_user(
            f"set_gradient_clip was called after minimize: it does not clip the gradient of {late[0]!r}"
        )
    for param in params:
        param.gradient_clip_attr = clip


def append_gradient_clip_ops(param_grads: ParamsGrads) -> ParamsGrads:
    """Write the ops of the clips that parameters have, by `ParamAttr(gradient_clip=...)` or
    `set_gradient_clip`; gives the new pairs.

    As in PaddlePaddle 1.8.5, nothing is clipped unless every parameter has a clip. Each is clipped by its
    own, as in 1.5 to 1.7, where 1.8.5 applies that of the last one to all.
    """
    context: dict[str, Any] = {}
    clips: dict[str, GradientClipBase] = {}
    for param, grad in param_grads:
        if grad is None:
            continue
        with param.block.program._optimized_guard([param, grad]), name_scope("gradient_clip_@CLIP"):
            clip = param.gradient_clip_attr if isinstance(param, Parameter) else None
            if clip is None:
                _doubt_other_clips(param, param_grads)
                return param_grads
            if not isinstance(clip, GradientClipBase):
                raise TypeError("clip attribute should be an instance of GradientClipBase")
            clip._process_context(context=context, param=param, grad=grad)
            clips[param.name] = clip
    pairs: ParamsGrads = []
    for param, grad in param_grads:
        if grad is None:
            continue
        # fluid's misspelling, which is in saved programs
        with param.block.program._optimized_guard([param, grad]), name_scope("graident_clip_@CLIP"):
            pairs.append(clips[param.name]._create_operators(param=param, grad=grad))
    _rename_in_roles(pairs, {param.name: new.name for param, new in pairs})
    return pairs


def _doubt_other_clips(without: Variable, param_grads: ParamsGrads) -> None:
    others = [
        param.name for param, _ in param_grads if getattr(param, "gradient_clip_attr", None) is not None
    ]
    if others:
        warn_user(
            f"no gradient is clipped, as in 1.8.5, because {without.name!r} has no clip while "
            f"{others[0]!r} has one: give all parameters a clip, or set `grad_clip` of the "
            "optimizer"
        )


ClipByValue = GradientClipByValue
ClipByNorm = GradientClipByNorm
ClipByGlobalNorm = GradientClipByGlobalNorm

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
