"""`append_backward` and `gradients`: the gradient ops of a loss, or of any variables, written into a program.

Each op on the way from the loss back emits its gradient ops (`rules`), on the path that `paths` finds;
partial gradients are summed and dead branches cut (`edits`); the ops are written and their variables declared
(`walk`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.backward.left_out import refuse_left_out
from fluidlite.backward.paths import dead_gradients, find_path, stopped_gradients
from fluidlite.backward.recompute import append_with_checkpoints
from fluidlite.backward.rules import forward_name, helper_op
from fluidlite.backward.versions import Versions
from fluidlite.backward.walk import Backward, Callback, declare_gradients, rename_known_gradients
from fluidlite.base.errors import ProgramEditError, ShapeError
from fluidlite.base.registry import grad_name
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.data_feeder import check_type
from fluidlite.ir.block import Block
from fluidlite.ir.operator import DEVICE_ATTR, ROLE_ATTR, ROLE_VAR_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable

__all__ = ["append_backward", "gradients"]

ParamsGrads = list[tuple[Variable, Variable | None]]


@short_tracebacks
def append_backward(
    loss: Variable,
    parameter_list: Iterable[Variable | str] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
    callbacks: list[Callback] | None = None,
    checkpoints: list[Variable] | list[str] | None = None,
) -> ParamsGrads:
    """Append the gradient ops of `loss`, a Variable of shape [1]; returns (parameter, gradient) pairs.

    The pairs are in the order of `parameter_list`, by default that of all trainable parameters; a parameter
    that the loss does not depend on is left out. `callbacks` are called as `callback(block=..., context=...)`
    after each op. With `checkpoints`, only these variables are kept for the backward pass and the rest is
    computed again.
    """
    _check_arguments(loss, callbacks)
    program = loss.block.program
    loss_op = _find_loss_op_(loss)
    # transpilers find the end of the forward pass by this role
    loss_op._set_attr(ROLE_ATTR, int(OpRole.Forward | OpRole.Loss))
    current = program.current_block()
    if current.idx == 0:
        program._appending_grad_times += 1
    backward = Backward(program, _no_grad(program, no_grad_set), callbacks or [])
    parameters = _parameter_names(program, parameter_list)
    refuse_left_out(current, [loss], parameters, _stops(backward, current))
    target = current
    start = len(current.ops)
    # inside a branch the gradient ops get a block beside it
    if current.idx != 0:
        target = program._create_block(current.parent_idx)
        start = 0
        target._set_forward_block_idx(current.idx)
    _fill_loss_gradient(loss, loss_op, target)
    # a loss inside a branch may depend on what the blocks around it computed
    for block in _outward(current):
        _append_block(backward, block, loss, target, checkpoints)
    start += backward.added.get(target, 0)
    rename_known_gradients(target, start, backward.grad_of, {})
    found: dict[str, tuple[str, Block]] = {}
    declare_gradients(target, start, backward.grad_of, found)
    program.current_block_idx = current.idx
    return _marked(target, _pairs(target, parameters, found))


def _check_arguments(loss: Variable, callbacks: list[Callback] | None) -> None:
    check_type(loss, "loss", Variable, "fluid.backward.append_backward")
    if callbacks is not None:
        check_type(callbacks, "callbacks", list, "fluid.backward.append_backward")
        if not all(map(callable, callbacks)):
            raise ValueError("'callback' must be a callable object.")
    if all(dim > 0 for dim in loss.shape) and math.prod(loss.shape) != 1:
        raise ShapeError(
            f"append_backward: the loss {loss.name!r} has shape {list(loss.shape)}, wanted one element; "
            "apply layers.mean to it"
        )


def _find_loss_op_(loss: Variable) -> Operator:
    """The op that makes the loss; in a cloned program it is looked up."""
    if loss.op is None:
        loss.op = next((op for op in reversed(loss.block.ops) if op.output_arg_names == [loss.name]), None)
    if loss.op is None:
        raise ValueError(f"loss.op is None: no op of the program makes the loss {loss.name!r}")
    return loss.op


def _outward(block: Block | None) -> Iterable[Block]:
    while block is not None:
        yield block
        block = block.parent


def _names(given: Iterable[Variable | str] | None, what: str) -> list[str]:
    if not isinstance(given, (set, list, tuple)):
        raise TypeError(f"The type of {what} should be set or list or tuple, but received {type(given)}")
    for item in given:
        if not isinstance(item, (Variable, str)):
            raise TypeError(
                f"The type of {what}'s member must be paddle.fluid.Variable or str, but received "
                f"{type(item)}."
            )
    return [item if isinstance(item, str) else item.name for item in given]


def _get_no_grad_set_name(no_grad_set: Iterable[Variable | str] | None) -> set[str]:
    """The names in a `no_grad_set`."""
    return set() if no_grad_set is None else set(_names(no_grad_set, "no_grad_set"))


def _no_grad(program: Program, no_grad_set: Iterable[Variable | str] | None) -> dict[int, set[str]]:
    """Gradients that must not be made, by block: of stopped variables, and of those named for block 0."""
    found = stopped_gradients(program)
    found[0].update(grad_name(name) for name in _get_no_grad_set_name(no_grad_set))
    return found


def _fill_loss_gradient(loss: Variable, loss_op: Operator, target: Block) -> None:
    """The gradient of the loss with respect to itself is one."""
    attrs = {
        "shape": [1] if loss.shape else [],  # 2.x's losses have the shape []
        "value": 1.0,
        "dtype": int(loss.dtype),
        "force_cpu": False,
        ROLE_ATTR: int(OpRole.Backward | OpRole.Loss),
        DEVICE_ATTR: loss_op.attrs.get(DEVICE_ATTR, ""),
    }
    op = helper_op(target, loss_op, "fill_constant", {}, {"Out": [grad_name(loss.name)]}, attrs)
    target.adopt(len(target.ops), op)


def _stops(backward: Backward, block: Block) -> set[str]:
    """Variables of `block` that get no gradient."""
    return {forward_name(name) for name in backward.no_grad[block.idx]}


def _append_block(
    backward: Backward,
    block: Block,
    loss: Variable,
    target: Block,
    checkpoints: list[Variable] | list[str] | None,
) -> None:
    no_grad = backward.no_grad[block.idx]
    stops = _stops(backward, block)
    path = find_path(block, [loss], [], stops)
    no_grad.update(grad_name(name) for name in stops)
    incoming = _incoming(backward, block, loss, target)
    Versions(block, incoming).stop(no_grad)
    no_grad |= dead_gradients(block, path, [loss], stops, incoming)
    # a second pass must not take the gradients of the first for its own
    if backward.program._appending_grad_times > 1 and target is block:
        backward.given = {grad_name(loss.name)}
    if checkpoints and isinstance(checkpoints, list) and not Versions(block).are_replaced(path):
        append_with_checkpoints(backward, block, path, checkpoints)
    else:
        backward.append(block, path, target, incoming)


def _incoming(backward: Backward, block: Block, loss: Variable, target: Block) -> list[str]:
    """Variables of `block` whose gradients, or parts of them, `target` has: the loss, and what blocks inside
    of it read.
    """
    made = {grad_name(loss.name)} | backward.made.get(target, set())
    return [name for name in block.vars if grad_name(name) in made]


def _parameter_names(program: Program, parameter_list: Any) -> list[str]:
    if parameter_list is None:
        return [param.name for param in program.global_block().iter_parameters() if param.trainable]
    check_type(parameter_list, "parameter_list", (list, tuple, set), "fluid.backward.append_backward")
    for number, param in enumerate(parameter_list):
        check_type(param, f"parameter_list[{number}]", (Variable, str), "fluid.backward.append_backward")
    return _names(parameter_list, "parameter_list")


def _pairs(target: Block, parameters: Iterable[str], found: dict[str, tuple[str, Block]]) -> ParamsGrads:
    """Parameters with their gradients; None where the gradient stays inside a loop or branch."""
    home = target.program.global_block()
    return [(home.var(name), target.vars.get(found[name][0])) for name in parameters if name in found]


def _marked(target: Block, pairs: ParamsGrads) -> ParamsGrads:
    """`pairs`, which are noted on the last op that makes each gradient."""
    makers = {name: op for op in target.ops for name in op.output_arg_names}
    for param, grad in pairs:
        if grad is not None:
            _mark_role(param, grad, makers)
    return pairs


def _mark_role(param: Variable, grad: Variable, makers: Mapping[str, Operator]) -> None:
    """Write [parameter, gradient] on the op that makes the gradient."""
    op = makers.get(grad.name)
    if op is None:
        raise ProgramEditError(f"no op of the program makes {grad.name!r}")
    grad.op = op
    op._set_attr(ROLE_VAR_ATTR, [param.name, grad.name, *op.role_vars])


# ---------------------------------------------------------------------- gradients of anything
@short_tracebacks
def gradients(
    targets: Variable | list[Variable],
    inputs: Variable | list[Variable],
    target_gradients: Variable | list[Variable | None] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
) -> list[Variable | None]:
    """Append the ops for the gradients of `targets` with respect to `inputs`; None for an input without
    influence.

    `target_gradients` are what comes in from above, by default ones; gradients of several targets add up.
    """
    for name, value, kinds in (
        ("targets", targets, (Variable, list)),
        ("inputs", inputs, (Variable, list)),
        ("target_gradients", target_gradients, (Variable, list, type(None))),
    ):
        check_type(value, name, kinds, "fluid.backward.gradients")
    found = calc_gradient(targets, inputs, target_gradients, no_grad_set)
    return found if isinstance(found, list) else _as_list(found)


def calc_gradient(
    targets: Any,
    inputs: Any,
    target_gradients: Any = None,
    no_grad_set: Iterable[Variable | str] | None = None,
) -> Any:
    """`gradients`, but a single gradient comes without a list."""
    targets = _as_list(targets)
    inputs = _as_list(inputs)
    incoming: list[Variable | None] = _as_list(target_gradients) or [None] * len(targets)
    if len(targets) != len(incoming):
        raise ValueError("Should have the same number of target_gradients as targets")
    block: Block = targets[0].block
    program = block.program
    for var in inputs:
        if var.block.program is not program:
            raise ValueError(f"input {var.name!r} must be in the same program as targets")
    program._appending_grad_times += 1
    backward = Backward(program, _no_grad(program, no_grad_set))
    start = len(block.ops)
    given, renamed = _start_from(block, targets, incoming)
    if program._appending_grad_times > 1:
        backward.given = given
    own = _append_between(backward, block, targets, inputs)
    start += backward.added.get(block, 0)
    rename_known_gradients(block, start, backward.grad_of, renamed)
    found = {of: (renamed[name], block) for name, of in own.items() if name in renamed}
    declare_gradients(block, start, backward.grad_of, found, [*renamed.values()])
    # a gradient inside of a loop or branch alone is that of a version made by the ops in front of it
    names = [
        name if at is block else None for name, at in (found.get(var.name, ("", None)) for var in inputs)
    ]
    result = [None if name is None else block.var(name) for name in names]
    return result[0] if len(result) == 1 else result


def _append_between(
    backward: Backward, block: Block, targets: Sequence[Variable], inputs: Sequence[Variable]
) -> dict[str, str]:
    """Write the gradient ops between inputs and targets. Returns, for inputs that are targets themselves,
    gradient -> variable: what comes in for them counts.
    """
    no_grad = backward.no_grad[0]
    stops = {forward_name(name) for name in no_grad}
    refuse_left_out(block, targets, [var.name for var in inputs], stops)
    path = find_path(block, targets, inputs, stops)
    no_grad.update(grad_name(name) for name in stops)
    names = [target.name for target in targets]
    versions = Versions(block, names)
    versions.stop(no_grad)
    own = {grad_name(var.name): var.name for var in inputs if var.name in names}
    own = {name: of for name, of in own.items() if not versions.is_split(of)}
    if (
        backward.program.is_of_2x
    ):  # 1.8.5 stops at an op that wants a gradient for an output that nobody reads
        no_grad |= dead_gradients(block, path, targets, stops, names)
    backward.append(block, path, block, names)
    backward.grad_of.update(own)
    return own


def _as_list(value: Any) -> list[Any]:
    """`value` as a list; None is none, anything but a list or tuple is one."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _start_from(
    block: Block, targets: Sequence[Variable], incoming: Sequence[Variable | None]
) -> tuple[set[str], dict[str, str]]:
    """Make the targets' gradients: which gradients exist then, and how given ones are called."""
    given: set[str] = set()
    renamed: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    for target, gradient in zip(targets, incoming, strict=True):
        name = grad_name(target.name)
        if gradient is None:
            part = name if target.name not in parts else unique_name.generate(name)
            given |= _fill_ones(block, target, part)
            parts.setdefault(target.name, []).append(part)
            continue
        if target.block is not block:
            raise ValueError("all targets must be in the same block")
        if target.shape != gradient.shape:
            raise ValueError(f"The shapes of target and grad are different: {target.name} {gradient.name}")
        renamed[name] = gradient.name
        given |= {gradient.name, name}
        parts.setdefault(target.name, []).append(gradient.name)
    for target in {target.name: target for target in targets}.values():
        if len(parts[target.name]) > 1:
            name = grad_name(target.name)
            renamed.pop(name, None)
            like = target.op if target.op is not None else Operator(block, type="sum")
            op = helper_op(
                block, like, "sum", {"X": parts[target.name]}, {"Out": [name]}, {"use_mkldnn": False}
            )
            block.adopt(len(block.ops), op)
    return given, renamed


def _fill_ones(block: Block, target: Variable, gradient: str) -> set[str]:
    if block.program.is_of_2x:
        like = target.op if target.op is not None else Operator(block, type="fill_any_like")
        attrs = {"value": 1.0, "dtype": int(target.dtype)}
        op = helper_op(block, like, "fill_any_like", {"X": [target.name]}, {"Out": [gradient]}, attrs)
        block.adopt(len(block.ops), op)
        return {gradient}
    shape = target.name + "_shape"
    like = target.op if target.op is not None else Operator(block, type="shape")
    ops = [
        helper_op(block, like, "shape", {"Input": [target.name]}, {"Out": [shape]}, {}),
        helper_op(
            block,
            like,
            "fill_constant",
            {"ShapeTensor": [shape]},
            {"Out": [gradient]},
            {"shape": list(target.shape), "value": 1.0, "dtype": int(target.dtype)},
        ),
    ]
    for op in ops:
        block.adopt(len(block.ops), op)
    return {shape, gradient}
