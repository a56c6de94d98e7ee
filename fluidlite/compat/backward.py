"""The steps of a backward pass under the names by which programs reach into Paddle's `fluid.backward`.

They take and give what Paddle's do: ops where it has ops, their descriptions (`op.desc`) where it has those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fluidlite.backward import edits, rules
from fluidlite.backward.paths import (
    dead_ends,
    encloses,
    find_path,
    names_in,
    stopped_gradients,
    sub_block_path,
)
from fluidlite.backward.walk import (
    Backward,
    Callback,
    declare_gradients,
    like_forward,
    rename_known_gradients,
)
from fluidlite.base.registry import grad_name
from fluidlite.compat.desc import OpDesc
from fluidlite.ir.block import Block
from fluidlite.ir.operator import DEVICE_ATTR, ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable

__all__: list[str] = []


# ---------------------------------------------------------------------- names
def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _strip_grad_suffix_(name: str | bytes) -> str:
    """The variable that `name` is a gradient of."""
    return rules.forward_name(_text(name))


def _append_grad_suffix_(name: str | bytes) -> str:
    """The name of the gradient of `name`."""
    return grad_name(_text(name))


_is_grad_var_ = rules.is_gradient


def _is_grad_op_(op: Operator) -> bool:
    """True if an op stands in the backward pass and makes the gradient of a parameter."""
    return bool(op.role_vars) and op.role == OpRole.Backward


def _rename_grad_name_(name: str, grad_order: int) -> str:
    """The name of a gradient in the pass `grad_order`."""
    return "grad/" * grad_order + name


def _some_in_set_(cands: Iterable[str], s: set[str]) -> bool:
    """True if one of `cands` is in the set."""
    return not s.isdisjoint(cands)


def _all_in_set_(cands: Sequence[str], s: set[str]) -> bool:
    """True if there are `cands` and all are in the set."""
    return bool(cands) and s.issuperset(cands)


# ---------------------------------------------------------------------- what depends on what
_find_op_path_ = find_path
_find_no_grad_vars = dead_ends
_get_output_names = names_in
_is_ancestor_block = encloses


def _get_stop_gradients_(program: Program) -> dict[int, set[str]]:
    """Block -> the gradients of its variables that are marked `stop_gradient`."""
    assert isinstance(program, Program)
    return stopped_gradients(program)


def _get_son_parent_block_idx_dict(program: Program, current_block_idx: int) -> dict[int, int]:
    """A block and those around it, each with the index of its parent."""
    found: dict[int, int] = {}
    while current_block_idx >= 0:
        found[current_block_idx] = program.block(current_block_idx).parent_idx
        current_block_idx = found[current_block_idx]
    return found


def _find_parent_op_(sub_block: Block) -> OpDesc | None:
    """The op that runs `sub_block`."""
    ops = (op for block in sub_block.program.blocks for op in block.ops)
    return next((OpDesc(op) for op in ops if any(inner is sub_block for inner in op.sub_blocks())), None)


def _get_sub_block_path(sub_block: Block, sub_block_op_desc: OpDesc, no_grad_set: set[str]) -> list[Operator]:
    """The ops of a sub-block that get gradients."""
    return sub_block_path(sub_block, sub_block_op_desc.target, no_grad_set)


# ---------------------------------------------------------------------- descriptions
def _create_op_desc_(
    op_type: str,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
    attrs: Mapping[str, Any],
) -> OpDesc:
    """An op of the backward pass that stands in no program yet."""
    common = {ROLE_ATTR: int(OpRole.Backward), DEVICE_ATTR: ""}
    return OpDesc(
        Operator(
            Program().global_block(), type=op_type, inputs=inputs, outputs=outputs, attrs={**common, **attrs}
        )
    )


def _create_loss_op_desc_(loss: Variable) -> OpDesc:
    """The op that makes the gradient of the loss, which is one."""
    return _create_op_desc_(
        "fill_constant",
        {},
        {"Out": [grad_name(loss.name)]},
        {
            "shape": [1],
            "value": 1.0,
            "dtype": int(loss.dtype),
            "force_cpu": False,
            ROLE_ATTR: int(OpRole.Backward | OpRole.Loss),
        },
    )


def _rename_arg_(
    op_descs: Sequence[OpDesc],
    old_name: str,
    new_name: str,
    begin_idx: int | None = None,
    end_idx: int | None = None,
) -> None:
    """Rename what the ops from `begin_idx` to before `end_idx` read and write."""
    rules.rename([desc.target for desc in op_descs[begin_idx:end_idx]], old_name, new_name)


def _addup_repetitive_outputs_(op_descs: Sequence[OpDesc], block_idx: int) -> list[OpDesc]:
    """The ops with their partial gradients renamed and summed."""
    return [OpDesc(op) for op in edits.add_up([desc.target for desc in op_descs], block_idx)]


def _remove_no_grad_branch_(op_descs: Sequence[OpDesc], no_grad_set: set[str]) -> list[OpDesc]:
    """The ops without those that nobody needs."""
    return [OpDesc(op) for op in edits.cut_dead_branches([desc.target for desc in op_descs], no_grad_set)]


# ---------------------------------------------------------------------- writing
def _append_backward_ops_(
    block: Block,
    ops: Sequence[Operator],
    target_block: Block,
    no_grad_dict: dict[int, set[str]],
    grad_to_var: dict[str, Any],
    callbacks: Sequence[Callback] | None = None,
    input_grad_names_set: set[str] | None = None,
) -> None:
    """Write the gradient ops of `ops` into `target_block`; `grad_to_var` receives gradient -> variable."""
    Backward(block.program, no_grad_dict, callbacks or (), input_grad_names_set, grad_to_var).append(
        block, ops, target_block
    )


_rename_grad_ = rename_known_gradients


def _append_backward_vars_(
    block: Block,
    start_op_idx: int,
    grad_to_var: Mapping[str, Any],
    grad_info_map: dict[str, tuple[str, Block]],
) -> None:
    """Declare what the ops from `start_op_idx` on write; `grad_info_map` receives variable -> (gradient,
    block).
    """
    declare_gradients(block, start_op_idx, grad_to_var, grad_info_map)


_infer_var_data_type_shape_ = like_forward
