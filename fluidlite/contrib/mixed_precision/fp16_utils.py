"""The edits that make a program one of mixed precision: casts around its ops, and the scale of its loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, ROLE_VAR_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.compare import less_than
from fluidlite.layers.flow.array import increment
from fluidlite.layers.flow.conditional import Switch
from fluidlite.layers.tensor import isfinite
from fluidlite.layers.tensors.constants import fill_constant
from fluidlite.layers.tensors.variables import assign

__all__ = [
    "find_op_index",
    "find_true_post_op",
    "find_true_prev_op",
    "rewrite_program",
    "update_loss_scaling",
    "update_role_var_grad",
]

_NAMES = {VarType.FP16: "fp16", VarType.BF16: "bf16"}
_WITH_DTYPE = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY)


# ---------------------------------------------------------------------- looking for ops
def find_op_index(block_desc: Any, cur_op_desc: Any) -> int:
    """The position of an op's description in that of its block; -1 where it is not there."""
    for index in range(block_desc.op_size()):
        if cur_op_desc == block_desc.op(index):
            return index
    return -1


def find_true_prev_op(ops: Sequence[Operator], cur_op: Operator, var_name: str) -> Operator | None:
    """The op in front of `cur_op` that writes a variable; ValueError where there are several."""
    writers = []
    for op in ops:
        if op is cur_op:
            break
        if var_name in op.output_arg_names:
            writers.append(op)
    if len(writers) > 1:
        raise ValueError(f"There must be only one previous op that outputs {var_name} variable")
    return writers[0] if writers else None


def find_true_post_op(ops: Sequence[Operator], cur_op: Operator, var_name: str) -> list[Operator]:
    """The ops behind `cur_op` that read a variable."""
    position = next((index for index, op in enumerate(ops) if op is cur_op), len(ops))
    return [op for op in ops[position + 1 :] if var_name in op.input_arg_names]


# ---------------------------------------------------------------------- casts
def rewrite_program(
    main_prog: Program, amp_lists: AutoMixedPrecisionLists, dtype: VarType = VarType.FP16, only: str = ""
) -> None:
    """Cast the inputs of each op of the global block to the precision that the lists give it.

    `dtype` is the half precision: FP16, as in fluid, or BF16. With `only`, the name of a name scope, the ops
    outside such scopes stay in single precision (an addition to fluid's).
    """
    block = main_prog.global_block()
    single, half = _by_precision(block, amp_lists, only)
    for op in list(block.ops):
        if op in single:
            _insert_cast_op(block, op, op.idx, dtype, VarType.FP32)
        elif op in half:
            _insert_cast_op(block, op, op.idx, VarType.FP32, dtype)


def _by_precision(
    block: Block, amp_lists: AutoMixedPrecisionLists, only: str
) -> tuple[set[Operator], set[Operator]]:
    """The ops that compute in single precision, and those in half; the rest is left as it is."""
    single: set[Operator] = set()
    half: set[Operator] = set()
    for op in block.ops:
        if (
            not _is_in_scope(op, only)
            or op.type in amp_lists.black_list
            or _is_in_black_varnames(op, amp_lists)
        ):
            single.add(op)
        elif op.type in amp_lists.white_list:
            half.add(op)
        elif op.type not in amp_lists.gray_list:
            single.add(op)
        else:
            before = _makers(block, op)
            if any(maker in single or maker.type in amp_lists.black_list for maker in before):
                single.add(op)
            elif any(maker in half or maker.type in amp_lists.white_list for maker in before):
                half.add(op)
    return single, half


def _makers(block: Block, op: Operator) -> list[Operator]:
    """The ops that make the inputs of `op`."""
    found = []
    for name in op.input_arg_names:
        maker = block.var(name).op
        if maker is op:  # it writes what it reads
            maker = find_true_prev_op(block.ops, op, name)
        if maker is not None:
            found.append(maker)
    return found


def _is_in_black_varnames(op: Operator, amp_lists: AutoMixedPrecisionLists) -> bool:
    names = amp_lists.black_varnames or ()
    return any(name in names for name in (*op.input_arg_names, *op.output_arg_names))


def _is_in_scope(op: Operator, only: str) -> bool:
    """True if the op was written under the name scope `only`, or that is empty."""
    return not only or only in str(op.attr("op_namescope") or "")


def _dtype_to_str(dtype: VarType) -> str:
    return _NAMES.get(dtype, "fp32")


def _rename_arg(op: Operator, old_name: str, new_name: str) -> None:
    op._rename_input(old_name, new_name)
    op._rename_output(old_name, new_name)


def _insert_cast_op(block: Block, op: Operator, idx: int, src_dtype: VarType, dest_dtype: VarType) -> int:
    """Cast the inputs of `op` (at `idx`) that are of `src_dtype`, and on the way to half precision declare
    its outputs so; gives the number of casts.
    """
    count = 0
    for slot in sorted(op.inputs):
        # the scale and the statistics of a normalisation stay in single precision
        if src_dtype == VarType.FP32 and op.type == "batch_norm" and slot not in ("X", "Z"):
            continue
        for name in op.input(slot):
            var = block.var(name)
            if var.type not in _WITH_DTYPE:
                continue
            if var.dtype == src_dtype:
                count += _cast_input(block, op, idx, var, dest_dtype)
            elif op.has_attr("in_dtype"):
                op._set_attr("in_dtype", int(dest_dtype))
    if src_dtype == VarType.FP32:
        _declare_outputs(block, op, dest_dtype)
    return count


def _cast_input(block: Block, op: Operator, idx: int, var: Variable, dtype: VarType) -> int:
    """Let `op` read `var` through its cast to `dtype`; gives the number of casts that this took."""
    name = f"{var.name}.cast_{_dtype_to_str(dtype)}"
    cast = block.vars.get(name)
    is_new = cast is None or cast.dtype != dtype
    if is_new:
        cast = block.create_var(name=name, dtype=dtype, persistable=False, stop_gradient=False)
        block._insert_op(
            idx,
            type="cast",
            inputs={"X": var},
            outputs={"Out": cast},
            attrs={"in_dtype": int(var.dtype), "out_dtype": int(dtype)},
        )
    _rename_arg(op, var.name, name)
    return int(is_new)


def _declare_outputs(block: Block, op: Operator, dtype: VarType) -> None:
    """Declare the outputs of `op` that are of single precision to be of half precision."""
    for slot, names in op.outputs.items():
        if op.type == "batch_norm" and slot != "Y":
            continue
        for name in names:
            var = block.var(name)
            if var.type in _WITH_DTYPE and var.dtype == VarType.FP32:
                var.dtype = dtype
                if op.has_attr("out_dtype"):
                    op._set_attr("out_dtype", int(dtype))


# ---------------------------------------------------------------------- gradients
def update_role_var_grad(main_prog: Program, params_grads: Iterable[Sequence[Any]]) -> None:
    """Give the pair (parameter, gradient) to the op that makes the gradient in half precision, and move the
    casts back to single precision behind the backward pass.

    So gradients travel between processes in half precision, which is half of the traffic.
    """
    block = main_prog.global_block()
    block._sync_with_cpp()
    for param, grad in params_grads:
        cast = grad.op
        if grad.dtype != VarType.FP32 or cast is None or cast.type != "cast":
            continue
        role = int(cast.attr(ROLE_ATTR))
        if role & OpRole.Backward and cast.has_attr(ROLE_VAR_ATTR):
            cast._remove_attr(ROLE_VAR_ATTR)
        half = block.var(cast.input("X")[0])
        if half.op is not None and half.op.has_attr(ROLE_ATTR) and role & OpRole.Backward:
            half.op._set_attr(ROLE_VAR_ATTR, [param.name, half.name, *half.op.role_vars])
        if find_true_post_op(block.ops, cast, grad.name):
            raise ValueError(f"The cast op {cast} must not have later op")
        cast._set_attr(ROLE_ATTR, int(OpRole.Optimize))
        block.set_ops([*(op for op in block.ops if op is not cast), cast])


# ---------------------------------------------------------------------- scale of the loss
def update_loss_scaling(
    is_overall_finite: Variable,
    prev_loss_scaling: Variable,
    num_good_steps: Variable,
    num_bad_steps: Variable,
    incr_every_n_steps: Variable,
    decr_every_n_nan_or_inf: Variable,
    incr_ratio: float,
    decr_ratio: float,
) -> None:
    """Append the update of a dynamic scale of the loss.

    After more than `incr_every_n_steps` steps in a row with finite gradients the scale is multiplied with
    `incr_ratio`, unless it would not be finite itself; after more than `decr_every_n_nan_or_inf` steps in a
    row without, with `decr_ratio`, down to 1.
    """
    zero_steps = fill_constant(shape=[1], dtype="int32", value=0)
    with Switch() as switch:
        with switch.case(is_overall_finite):
            should_incr = less_than(incr_every_n_steps, num_good_steps + 1)
            with Switch() as switch1:
                with switch1.case(should_incr):
                    _grow(prev_loss_scaling, incr_ratio)
                    assign(zero_steps, num_good_steps)
                    assign(zero_steps, num_bad_steps)
                with switch1.default():
                    increment(num_good_steps)
                    assign(zero_steps, num_bad_steps)
        with switch.default():
            should_decr = less_than(decr_every_n_nan_or_inf, num_bad_steps + 1)
            with Switch() as switch3:
                with switch3.case(should_decr):
                    _shrink(prev_loss_scaling, decr_ratio)
                    assign(zero_steps, num_good_steps)
                    assign(zero_steps, num_bad_steps)
                with switch3.default():
                    assign(zero_steps, num_good_steps)
                    increment(num_bad_steps)


def _grow(loss_scaling: Variable, ratio: float) -> None:
    """Multiply the scale with `ratio` unless that overflows."""
    larger = loss_scaling * ratio
    is_finite = isfinite(larger)
    with Switch() as switch:
        with switch.case(is_finite):
            assign(larger, loss_scaling)
        with switch.default():  # the scale stays: the block is there because fluid's program has it
            pass


def _shrink(loss_scaling: Variable, ratio: float) -> None:
    """Multiply the scale with `ratio`, down to 1."""
    smaller = loss_scaling * ratio
    one = fill_constant(shape=[1], dtype="float32", value=1.0)
    is_too_small = less_than(smaller, one)
    with Switch() as switch:
        with switch.case(is_too_small):
            assign(one, loss_scaling)
        with switch.default():
            assign(smaller, loss_scaling)
