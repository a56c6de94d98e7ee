"""`DynamicRNN`: a recurrence over sequences of different lengths, the batch shrinking as they end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.data_feeder import check_type
from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.compare import less_than
from fluidlite.layers.flow.array import array_read, array_to_lod_tensor, array_write, increment, shrink_memory
from fluidlite.layers.flow.while_loop import While
from fluidlite.layers.tensors.constants import fill_constant

__all__ = ["DynamicRNN"]


class DynamicRNN:
    """Write one step inside `with rnn.block():` with `step_input`, `static_input`, `memory`, `update_memory`,
    `output`.

    The sequences are sorted by length, so that the rows of a step are those that still run; calling the
    object gives the outputs as sequences in the order of the input.
    """

    BEFORE_RNN = 0
    IN_RNN = 1
    AFTER_RNN = 2

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("dynamic_rnn", name=name)
        self.status = DynamicRNN.BEFORE_RNN
        self.lod_rank_table: Variable | None = None
        self.max_seq_len: Variable | None = None
        self.step_idx: Variable | None = None
        self.zero_idx: Variable | None = None
        self.mem_dict: dict[str, Variable] = {}
        self.output_array: list[Variable] = []
        self.outputs: list[Variable] = []
        self.cond = self.helper.create_variable_for_type_inference(dtype="bool")
        self.cond.stop_gradient = False
        self.while_op = While(self.cond)
        self.input_array: list[tuple[Variable, VarType]] = []
        self.mem_link: list[tuple[Variable, Variable]] = []

    # ------------------------------------------------------------------ what a step reads
    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """The row of each sequence of `x` at this step; the first call defines the sequences."""
        self._assert_in_rnn_block_("step_input")
        if not isinstance(x, Variable):
            raise TypeError("step_input() can only take a Variable as its input.")
        parent = self._parent_block_()
        if self.lod_rank_table is None:
            self._rank(x, level)
        array = parent.create_var(
            name=unique_name.generate("dynamic_rnn_input_array"), type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype
        )
        self.input_array.append((array, x.dtype))
        parent.append_op(
            type="lod_tensor_to_array",
            inputs={"X": x, "RankTable": self.lod_rank_table},
            outputs={"Out": array},
        )
        return array_read(array=array, i=self._step())

    def _rank(self, x: Variable, level: int) -> None:
        """Sort the sequences of `x`, and start the loop if there are any."""
        parent = self._parent_block_()
        self.lod_rank_table = parent.create_var(
            name=unique_name.generate("lod_rank_table"), type=VarType.LOD_RANK_TABLE
        )
        self.lod_rank_table.stop_gradient = True
        parent.append_op(
            type="lod_rank_table",
            inputs={"X": x},
            outputs={"Out": self.lod_rank_table},
            attrs={"level": level},
        )
        self.max_seq_len = parent.create_var(
            name=unique_name.generate("dynamic_rnn_max_seq_len"), dtype="int64"
        )
        self.max_seq_len.stop_gradient = False
        parent.append_op(
            type="max_sequence_len",
            inputs={"RankTable": self.lod_rank_table},
            outputs={"Out": self.max_seq_len},
        )
        self.cond.stop_gradient = True
        parent.append_op(
            type="less_than",
            inputs={"X": self.step_idx, "Y": self.max_seq_len},
            outputs={"Out": self.cond},
            attrs={"force_cpu": True},
        )

    def static_input(self, x: Variable) -> Variable:
        """The whole of `x` in every step, for the sequences that still run."""
        self._assert_in_rnn_block_("static_input")
        if not isinstance(x, Variable):
            raise TypeError("static_input() can only take a Variable as its input")
        if self.lod_rank_table is None:
            raise RuntimeError("static_input() must be called after step_input().")
        reordered = self._reordered("dynamic_rnn_static_input_reordered", x)
        return shrink_memory(reordered, self._step(), self.lod_rank_table)

    def _reordered(self, key: str, x: Variable) -> Variable:
        parent = self._parent_block_()
        out = parent.create_var(name=unique_name.generate(key), type=VarType.LOD_TENSOR, dtype=x.dtype)
        parent.append_op(
            type="reorder_lod_tensor_by_rank",
            inputs={"X": [x], "RankTable": [self.lod_rank_table]},
            outputs={"Out": [out]},
        )
        return out

    # ------------------------------------------------------------------ memories
    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> Variable:
        """The value from the step before, for the sequences that still run; the first step finds `init`, or
        `value` in `shape`.

        `need_reorder` sorts the rows of `init` as the sequences are sorted.
        """
        self._assert_in_rnn_block_("memory")
        self._init_zero_idx_()
        if init is None:
            check_type(shape, "shape", (list, tuple), "DynamicRNN.memory without init")
            init = self._constant_memory(shape or (), value, dtype)
        elif not isinstance(init, Variable):
            raise TypeError("The input arg `init` of memory() must be a Variable")
        elif need_reorder and self.lod_rank_table is None:
            raise ValueError(
                "If set need_reorder to True, make sure step_input be invoked before "
                "memory(init=init, need_reordered=True, ...)."
            )
        start = self._reordered("dynamic_rnn_mem_init_reordered", init) if need_reorder else init
        parent = self._parent_block_()
        array = parent.create_var(
            name=unique_name.generate("dynamic_rnn_mem_array"),
            type=VarType.LOD_TENSOR_ARRAY,
            dtype=init.dtype,
        )
        parent.append_op(
            type="write_to_array", inputs={"X": start, "I": self.zero_idx}, outputs={"Out": array}
        )
        assert self.lod_rank_table is not None, "step_input comes before memory"
        found = shrink_memory(
            x=array_read(array=array, i=self._step()), i=self._step(), table=self.lod_rank_table
        )
        self.mem_dict[found.name] = array
        return found

    def _constant_memory(self, shape: Sequence[int], value: float, dtype: Any) -> Variable:
        """A memory of `value` with as many rows as there are sequences."""
        if not self.input_array:
            raise ValueError("step_input should be invoked before memory(shape=..., value=...)")
        parent = self._parent_block_()
        init = parent.create_var(name=unique_name.generate("mem_init"), dtype=dtype)
        array, array_dtype = self.input_array[0]
        first = parent.create_var(name=unique_name.generate("in0"), dtype=array_dtype)
        parent.append_op(
            type="read_from_array", inputs={"X": [array], "I": [self.zero_idx]}, outputs={"Out": [first]}
        )
        parent.append_op(
            type="fill_constant_batch_size_like",
            inputs={"Input": [first]},
            outputs={"Out": [init]},
            attrs={"shape": [-1, *shape], "value": float(value), "dtype": init.dtype},
        )
        return init

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """Leave `new_mem` as the memory `ex_mem` of the next step."""
        self._assert_in_rnn_block_("update_memory")
        if not isinstance(ex_mem, Variable):
            raise TypeError("The input arg `ex_mem` of update_memory() must be a Variable")
        if not isinstance(new_mem, Variable):
            raise TypeError("The input arg `new_mem` of update_memory() must be a Variable")
        array = self.mem_dict.get(ex_mem.name)
        if array is None:
            raise ValueError("Please invoke memory before update_memory")
        if self.lod_rank_table is None:
            raise ValueError("Please invoke step_input before update_memory")
        self.mem_link.append((new_mem, array))

    # ------------------------------------------------------------------ the loop and its outputs
    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """The `with` in which the step is written."""
        if self.status != DynamicRNN.BEFORE_RNN:
            raise ValueError("rnn.block() can only be invoke once")
        self.step_idx = fill_constant(shape=[1], dtype="int64", value=0, force_cpu=True)
        self.step_idx.stop_gradient = False
        self.status = DynamicRNN.IN_RNN
        with self.while_op.block():
            yield
            increment(x=self.step_idx, value=1.0, in_place=True)
            for new_mem, array in self.mem_link:
                array_write(x=new_mem, i=self.step_idx, array=array)
            assert self.max_seq_len is not None, "a DynamicRNN needs a step_input"
            less_than(x=self.step_idx, y=self.max_seq_len, force_cpu=True, cond=self.cond)
        self.status = DynamicRNN.AFTER_RNN
        assert self.lod_rank_table is not None
        self.outputs += [
            array_to_lod_tensor(x=array, table=self.lod_rank_table) for array in self.output_array
        ]

    def output(self, *outputs: Variable) -> None:
        """Make each an output: its rows of all steps, as sequences."""
        self._assert_in_rnn_block_("output")
        parent = self._parent_block_()
        for var in outputs:
            array = parent.create_var(
                name=unique_name.generate("_".join([self.helper.name, "output_array", var.name])),
                type=VarType.LOD_TENSOR_ARRAY,
                dtype=var.dtype,
            )
            array_write(x=var, i=self._step(), array=array)
            self.output_array.append(array)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.status != DynamicRNN.AFTER_RNN:
            raise ValueError("Output of the dynamic RNN can only be visited outside the rnn block.")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    # ------------------------------------------------------------------ helpers
    def _step(self) -> Variable:
        assert self.step_idx is not None
        return self.step_idx

    def _init_zero_idx_(self) -> None:
        if self.zero_idx is None:
            parent = self._parent_block_()
            self.zero_idx = parent.create_var(name=unique_name.generate("zero_idx"), dtype="int64")
            parent.append_op(
                type="fill_constant",
                inputs={},
                outputs={"Out": [self.zero_idx]},
                attrs={"shape": [1], "dtype": self.zero_idx.dtype, "value": 0.0, "force_cpu": True},
            )

    def _parent_block_(self) -> Block:
        parent = self.helper.main_program.current_block().parent
        assert parent is not None
        return parent

    def _assert_in_rnn_block_(self, method: str) -> None:
        if self.status != DynamicRNN.IN_RNN:
            raise ValueError(f"{method} can only be invoked inside rnn block.")
