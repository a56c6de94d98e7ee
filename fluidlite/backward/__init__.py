"""`fluid.backward`: `append_backward`, `gradients`, and the steps of a backward pass by Paddle's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.backward.append import _as_list, _find_loss_op_, append_backward, calc_gradient, gradients  # noqa: F401
from fluidlite.backward.append import _get_no_grad_set_name as _get_no_grad_set_name
from fluidlite.base.imported_names import imported_names
from fluidlite.compat.backward import (  # noqa: F401
    _addup_repetitive_outputs_,
    _all_in_set_,
    _append_backward_ops_,
    _append_backward_vars_,
    _append_grad_suffix_,
    _create_loss_op_desc_,
    _create_op_desc_,
    _find_no_grad_vars,
    _find_op_path_,
    _find_parent_op_,
    _get_output_names,
    _get_son_parent_block_idx_dict,
    _get_stop_gradients_,
    _get_sub_block_path,
    _infer_var_data_type_shape_,
    _is_ancestor_block,
    _is_grad_op_,
    _is_grad_var_,
    _remove_no_grad_branch_,
    _rename_arg_,
    _rename_grad_,
    _rename_grad_name_,
    _some_in_set_,
    _strip_grad_suffix_,
)

__all__ = ["append_backward", "gradients"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
