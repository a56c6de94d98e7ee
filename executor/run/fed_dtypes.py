"""The check of a program whose feeds have other data types than its variables declare.

As in fluid 1.8, a feed of a `fluid.layers.data` keeps its type, and each op computes in the type that it
gets. An op stops the run where it has no computation in that type, or where two inputs that are declared
alike come in different types. Class numbers are no such case: what reads them takes them in any type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import to_numpy, to_vartype
from fluidlite.base.errors import FluidError, KernelError
from fluidlite.base.registry import Spec
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator

__all__ = ["check_fed_dtypes"]

# Readers of class numbers. `data("label", [1], "int64")` declares a float32: the third argument is another
# one. Such programs train all the same, as PaddlePaddle looks at what is fed.
_LABEL_READERS = frozenset(
    ["accuracy", "auc", "cross_entropy", "cross_entropy_grad", "cross_entropy2", "cross_entropy_grad2"]
    + ["softmax_with_cross_entropy", "softmax_with_cross_entropy_grad"]
)

# Inputs of which 1.8.5 reads no more than the shape or the level of detail.
_SHAPES_ONLY = frozenset(
    ["sequence_expand.Y", "sequence_expand_as.Y", "sequence_expand_grad.Y", "sequence_expand_as_grad.Y"]
    + ["prior_box.Input", "prior_box.Image", "density_prior_box.Input", "density_prior_box.Image"]
)


def _types(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Forward ops that compute in whole numbers too, by 1.8.5's kernels on the CPU; others know floats alone.
_WHOLE = _types(
    "abs arg_max arg_min argsort assign assign_value beam_search cast coalesce_tensor concat "
    "crop_tensor cross ctc_align cumsum diag diag_embed dot elementwise_add elementwise_div "
    "elementwise_floordiv elementwise_max elementwise_min elementwise_mod elementwise_mul "
    "elementwise_pow elementwise_sub equal equal_reduce exp expand expand_as eye fill fill_any_like "
    "fill_constant fill_constant_batch_size_like fill_zeros_like fill_zeros_like2 filter_by_instag "
    "flatten flatten2 flip gather gather_nd gather_tree greater_equal greater_than hash increment "
    "index_sample index_select is_empty isfinite isinf isnan kron less_equal less_than lod_reset "
    "mean_iou meshgrid multiplex not_equal one_hot one_hot_v2 pad pad2d pad_constant_like "
    "partial_concat partial_sum pow prroi_pool randint random_crop range reduce_max reduce_mean "
    "reduce_min reduce_prod reduce_sum reshape reshape2 reverse roi_align roi_pool roll save "
    "save_combine scale scatter scatter_nd_add sequence_concat sequence_enumerate sequence_erase "
    "sequence_expand sequence_expand_as sequence_mask sequence_pad sequence_reshape sequence_reverse "
    "sequence_scatter sequence_slice sequence_unpad shape shard_index shuffle_batch size slice "
    "space_to_depth split split_ids square squeeze squeeze2 stack strided_slice sum target_assign trace "
    "transpose transpose2 tril_triu unbind unique unique_with_counts unsqueeze unsqueeze2 unstack where "
    "where_index print py_func write_to_array read_from_array lod_tensor_to_array array_to_lod_tensor "
    "shrink_rnn_memory feed fetch split_lod_tensor merge_lod_tensor select_input select_output "
    "lookup_table lookup_table_v2 "
)

# Those that compute with truth values.
_BOOL = _types(
    "assign assign_value cast expand expand_as fill_any_like fill_constant "
    "fill_constant_batch_size_like fill_zeros_like fill_zeros_like2 flip gather_nd logical_and "
    "logical_not logical_or logical_xor reduce_all reduce_any reverse size where_index print py_func "
    "write_to_array read_from_array feed fetch split_lod_tensor merge_lod_tensor select_input "
    "select_output shape "
)


def check_fed_dtypes(block: Block, ops: Sequence[Operator], fed: Mapping[str, np.dtype[Any]]) -> None:
    """KernelError where an op of the block cannot compute with feeds of these types, or mixes them.

    Types are followed from op to op by the ops' shape rules. Ops with sub-blocks are not looked into: what
    they write counts as declared.
    """
    specs: dict[str, Spec] = {}
    for name, dtype in fed.items():
        var = block._find_var_recursive(name)
        if var is not None and var._dtype is not None:
            specs[name] = var.spec._replace(dtype=to_vartype(dtype))
    for op in ops:
        if not specs.keys().isdisjoint(op.input_arg_names):
            _follow(block, op, specs)


def _follow(block: Block, op: Operator, specs: dict[str, Spec]) -> None:
    if op.definition is None or op.sub_blocks():
        return
    inputs = {
        slot: [specs.get(name) or _declared(block, name) for name in names]
        for slot, names in op.inputs.items()
    }
    _check_types(block, op, specs)
    try:
        found = op.definition.infer(inputs, op.attrs)
    # a rule that cannot tell leaves the declaration as it is; the kernel will see the values
    except (FluidError, IndexError, TypeError, ZeroDivisionError, AttributeError):
        return
    for slot, names in op.outputs.items():
        for name, spec in zip(names, found.get(slot, ()), strict=False):
            declared = _declared(block, name)
            if declared is not None and spec.dtype not in (None, declared.dtype):
                specs[name] = declared._replace(dtype=spec.dtype)


def _check_types(block: Block, op: Operator, specs: Mapping[str, Spec]) -> None:
    first: dict[Any, tuple[str, Any]] = {}
    for slot, names in op.inputs.items():
        if f"{op.type}.{slot}" in _SHAPES_ONLY or (slot == "Label" and _reads_classes(op)):
            continue
        for name in names:
            declared = _declared(block, name)
            if declared is None or declared.dtype is None:
                continue
            dtype = specs[name].dtype if name in specs else declared.dtype
            if name in specs:
                _check_kernel(op, name, declared.dtype, dtype)
            other, expected = first.setdefault(declared.dtype, (name, dtype))
            if dtype != expected:
                raise KernelError(
                    f"Tensor holds the wrong type: op {op.type!r} takes {other!r} as {to_numpy(expected)} "
                    f"and {name!r} as {to_numpy(dtype)}, since one of them comes from a feed of another type "
                    f"than its variable declares\n  {op.call_text()}\n  built at {op.where}"
                )


def _reads_classes(op: Operator) -> bool:
    return op.type in _LABEL_READERS and not (op.has_attr("soft_label") and op.attr("soft_label"))


def _check_kernel(op: Operator, name: str, declared: Any, found: Any) -> None:
    dtype = to_numpy(found)
    known = _BOOL if dtype.kind == "b" else _WHOLE
    of_float = dtype.kind == "f" or (dtype.kind != "b" and to_numpy(declared).kind != "f")
    if of_float or op.type.removesuffix("_grad") in known:
        return
    raise KernelError(
        f"Operator {op.type} does not have kernel for {dtype}, as which {name!r} comes; it is "
        f"declared {to_numpy(declared)}\n  {op.call_text()}\n  built at {op.where}"
    )


def _declared(block: Block, name: str) -> Spec | None:
    var = block._find_var_recursive(name)
    return None if var is None or var._dtype is None else var.spec
