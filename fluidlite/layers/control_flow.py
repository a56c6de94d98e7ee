"""`fluid.layers.control_flow`: loops, branches and arrays, gathered from the files that hold them by
subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import guarded
from fluidlite.layers.arithmetic.compare import (
    equal,
    greater_equal,
    greater_than,
    less_equal,
    less_than,
    not_equal,
)
from fluidlite.layers.flow.array import (
    array_length,
    array_read,
    array_to_lod_tensor,
    array_write,
    create_array,
    increment,
    is_empty,
    lod_rank_table,
    lod_tensor_to_array,
    max_sequence_len,
    merge_lod_tensor,
    reorder_lod_tensor_by_rank,
    shrink_memory,
    split_lod_tensor,
)
from fluidlite.layers.flow.conditional import (
    ConditionalBlock,
    ConditionalBlockGuard,
    IfElse,
    IfElseBlockGuard,
    Switch,
    case,
    cond,
    copy_var_to_parent_block,
    select_input,
    select_output,
    switch_case,
)
from fluidlite.layers.flow.debug import Assert, Print
from fluidlite.layers.flow.while_loop import BlockGuard, While, WhileGuard, while_loop
from fluidlite.layers.recurrence.dynamic_rnn import DynamicRNN
from fluidlite.layers.recurrence.static_rnn import StaticRNN, StaticRNNMemoryLink

__all__ = [
    "Assert",
    "BlockGuard",
    "ConditionalBlock",
    "ConditionalBlockGuard",
    "DynamicRNN",
    "IfElse",
    "IfElseBlockGuard",
    "Print",
    "StaticRNN",
    "StaticRNNMemoryLink",
    "Switch",
    "While",
    "WhileGuard",
    "array_length",
    "array_read",
    "array_to_lod_tensor",
    "array_write",
    "case",
    "cond",
    "copy_var_to_parent_block",
    "create_array",
    "equal",
    "greater_equal",
    "greater_than",
    "increment",
    "is_empty",
    "less_equal",
    "less_than",
    "lod_rank_table",
    "lod_tensor_to_array",
    "max_sequence_len",
    "merge_lod_tensor",
    "not_equal",
    "reorder_lod_tensor_by_rank",
    "select_input",
    "select_output",
    "shrink_memory",
    "split_lod_tensor",
    "switch_case",
    "while_loop",
]

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
