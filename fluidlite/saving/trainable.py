"""Training a model that was saved for inference: its weights become parameters again.

A file for inference does not tell weights from other values, holds ops in test mode, and may lack outputs
that gradients read. `trainable` puts this back, as far as the file shows it, and lists the weights that stay
as they are, with the reason for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.errors import NotFoundError, did_you_mean
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.fused.onednn import activate
from fluidlite.ir.fused.plain_ops import PlainOps
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.prune import restore_outputs, set_train_mode
from fluidlite.ir.variable import Parameter, Variable

__all__ = ["Trainable", "trainable"]


@dataclass
class Trainable:
    """The outcome of `trainable`.

    parameters: the weights that training moves.
    frozen: name -> the reason why a weight stays as it is.
    changed: what was changed in the program, a sentence each.
    """

    parameters: list[Parameter] = field(default_factory=list)
    frozen: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rows = [f"{len(self.parameters)} parameters, {len(self.frozen)} frozen"]
        rows += [
            f"  {param.name}: {param.dtype.name.lower()}{list(param.shape)}" for param in self.parameters
        ]
        rows += [f"  {name}: frozen, {why}" for name, why in self.frozen.items()]
        return "\n".join([*rows, *self.changed])


def trainable(program: Program, frozen: Iterable[str] = (), train_mode: bool = True) -> Trainable:
    """Make the weights of a loaded inference program parameters, in place, so that `minimize` trains them.

    Parameters
    ----------
    program: as `load_inference_model` gives it; its values stay in the scope as they are.
    frozen: names of weights that are to stay as they are.
    train_mode: whether dropout drops again, and batch_norm normalises by the batch and updates its running
        statistics; False keeps both as in inference, as is usual for small data sets.

    Returns the parameters, the weights that stay frozen with the reasons, and what was changed. NotFoundError
    for a name in `frozen` that the program does not have.
    """
    kept = set(frozen)
    names = [var.name for var in program.list_vars() if var.persistable]
    unknown = sorted(kept - set(names))
    if unknown:
        raise NotFoundError(f"the program has no weight {unknown[0]!r}{did_you_mean(unknown[0], names)}")
    found = Trainable()
    for block in program.blocks:
        _split_layers(block, found)
    if train_mode:
        ops = set_train_mode(program)
        found.changed += [f"op {op.type!r} is in training mode again" for op in ops]
    restore_outputs(program)
    stopped = _without_gradients(program)
    for block in program.blocks:
        for var in [var for var in block.vars.values() if _is_weight(var)]:
            why = "named as frozen" if var.name in kept else _why_frozen(program, var)
            if why:
                found.frozen[var.name] = why
                var.stop_gradient = True
            else:
                found.parameters.append(_parameter(block, var))
    for op in stopped:
        _go_on(op)
    program.bump_version()
    return found


def _without_gradients(program: Program) -> list[Operator]:
    """The ops all of whose inputs have no gradient: their results have none for that reason alone."""
    ops = (op for block in program.blocks for op in block.ops)
    return [op for op in ops if not _goes_on(op)]


def _goes_on(op: Operator) -> bool:
    found = map(op.block._find_var_recursive, op.input_arg_names)
    return any(var is not None and not var.stop_gradient for var in found)


def _go_on(op: Operator) -> None:
    """Let gradients through an op, one of whose inputs has them now."""
    if op.definition is None or not op.definition.differentiable or not _goes_on(op):
        return
    for name in op.output_arg_names:
        var = op.block._find_var_recursive(name)
        if var is not None and var._dtype is not None and is_float(var._dtype):
            var.stop_gradient = False


def _is_weight(var: Variable) -> bool:
    return var.persistable and var.type == VarType.LOD_TENSOR


def _parameter(block: Block, var: Variable) -> Parameter:
    """The parameter in the place of a variable; its value is the scope's, and stays."""
    if isinstance(var, Parameter):
        var.trainable, var.stop_gradient = True, False
        return var
    made = block.program.parameter_type(
        block, type=var.type, name=var.name, shape=var.shape, dtype=var.dtype, trainable=True
    )
    made.stop_gradient = False
    made.op = var.op
    block.vars[var.name] = made
    return made


def _why_frozen(program: Program, var: Variable) -> str:
    """The reason why a weight cannot be trained, "" where it can."""
    if var._dtype is None or not is_float(var._dtype):
        return f"its type is {'unknown' if var._dtype is None else var._dtype.name.lower()}"
    if not var.shape or min(var.shape) < 0:
        return f"its shape is {list(var.shape)}"
    reasons = []
    for block in program.blocks:
        for op in block.ops:
            if var.name in op.output_arg_names:
                return f"op {op.type!r} writes it"
            for slot, names in op.inputs.items():
                if var.name in names:
                    reasons.append(_why_none(op, slot))
    if not reasons:
        return "no op reads it"
    return "" if "" in reasons else reasons[0]


def _why_none(op: Operator, slot: str) -> str:
    """The reason why no gradient reaches an input slot, "" where one does."""
    known = op.definition
    if known is None:
        return f"op {op.type!r} is not known"
    if not known.differentiable:
        return f"op {op.type!r} has no gradient"
    if slot in known.constants or (known.grad_slots and slot not in known.grad_slots):
        return f"op {op.type!r} has no gradient by its {slot}"
    return ""


# ---------------------------------------------------------------------- the program
def _split_layers(block: Block, found: Trainable) -> None:
    """Write each op `fc`, which inference alone has, as the product, sum and activation that it holds."""
    ops: list[Operator] = []
    for op in block.ops:
        if op.type != "fc" or op.attrs.get("padding_weights", False):
            ops.append(op)
            continue
        plain = PlainOps(op)
        columns = int(op.attrs.get("in_num_col_dims", 1))
        plain.add("mul", {"X": plain.name("Input"), "Y": plain.name("W")}, x_num_col_dims=columns)
        if plain.name("Bias"):
            bias = plain.name("Bias")
            plain.add("elementwise_add", {"X": plain.value, "Y": bias}, axis=columns)
        activate(plain, str(op.attrs.get("activation_type", "")))
        made = plain.ops(op.output("Out")[0], {})
        found.changed.append(f"op 'fc' is written as {', '.join(one.type for one in made)}")
        ops += made
    block.set_ops(ops)
