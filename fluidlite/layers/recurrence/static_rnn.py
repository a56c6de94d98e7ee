"""`StaticRNN`: a recurrence over the first dimension of its inputs, all sequences of the same length."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.data_feeder import check_type
from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.flow.while_loop import BlockGuard

__all__ = ["StaticRNN"]


class _StepGuard(BlockGuard):
    """The `with` in which one step of a StaticRNN is written."""

    def __init__(self, rnn: StaticRNN) -> None:
        super().__init__(rnn.helper.main_program)
        self.rnn = rnn

    def __enter__(self) -> None:
        self.rnn.status = StaticRNN.IN_RNN_BLOCK
        super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None:
            self.rnn.status = StaticRNN.AFTER_RNN_BLOCK
            self.rnn._complete_op()
        return super().__exit__(kind, error, trace)


class StaticRNNMemoryLink:
    """One memory: the variable it starts from, what a step reads, and what the step leaves for the next
    one.
    """

    def __init__(self, init: Variable, pre_mem: Variable, mem: Variable | None = None) -> None:
        self.init = init
        self.pre_mem = pre_mem
        self.mem = mem


class StaticRNN:
    """Write one step inside `with rnn.step():` with `step_input`, `memory`, `update_memory` and
    `step_output`.

    Step inputs are [length, batch, ...]; calling the object gives the outputs, [length, batch, ...] as well.
    """

    BEFORE_RNN_BLOCK = 0
    IN_RNN_BLOCK = 1
    AFTER_RNN_BLOCK = 2

    def __init__(self, name: str | None = None) -> None:
        check_type(name, "name", (str, type(None)), "fluid.layers.StaticRNN")
        self.helper = LayerHelper("static_rnn", name=name)
        self.memories: dict[str, StaticRNNMemoryLink] = {}
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.status = StaticRNN.BEFORE_RNN_BLOCK
        self.seq_len: int | None = None

    def step(self) -> _StepGuard:
        """The `with` in which the step is written."""
        return _StepGuard(self)

    def _assert_in_rnn_block_(self, method: str) -> None:
        if self.status != StaticRNN.IN_RNN_BLOCK:
            raise ValueError(f"You must invoke {method} in rnn block")

    def _parent_block(self) -> Block:
        parent = self.helper.main_program.current_block().parent
        assert parent is not None
        return parent

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Variable | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Variable:
        """The value from the step before; the first step finds `init`, or `init_value` in `shape` with the
        batch of `batch_ref`.
        """
        self._assert_in_rnn_block_("memory")
        check_type(init, "init", (Variable, type(None)), "fluid.layers.StaticRNN.memory")
        check_type(shape, "shape", (list, tuple, type(None)), "fluid.layers.StaticRNN.memory")
        check_type(batch_ref, "batch_ref", (Variable, type(None)), "fluid.layers.StaticRNN.memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("if init is None, memory at least need shape and batch_ref")
            init = self._boot(shape, batch_ref, init_value, init_batch_dim_idx, ref_batch_dim_idx)
        pre_mem = self.helper.create_variable(
            name=unique_name.generate(self.helper.name + "@mem"), dtype=init.dtype, shape=init.shape
        )
        self.memories[pre_mem.name] = StaticRNNMemoryLink(init=init, pre_mem=pre_mem)
        return pre_mem

    def _boot(
        self, shape: Sequence[int], batch_ref: Variable, value: float, batch_dim: int, ref_batch_dim: int
    ) -> Variable:
        parent = self._parent_block()
        boot = parent.create_var(
            name=unique_name.generate(self.helper.name + "@memory_boot"),
            shape=shape,
            dtype=batch_ref.dtype,
            persistable=False,
        )
        parent.append_op(
            type="fill_constant_batch_size_like",
            inputs={"Input": [batch_ref]},
            outputs={"Out": [boot]},
            attrs={
                "value": value,
                "shape": boot.shape,
                "dtype": boot.dtype,
                "input_dim_idx": ref_batch_dim,
                "output_dim_idx": batch_dim,
            },
        )
        return boot

    def step_input(self, x: Variable) -> Variable:
        """The slice of `x` along its first dimension at this step."""
        self._assert_in_rnn_block_("step_input")
        check_type(x, "x", Variable, "fluid.layers.StaticRNN.step_input")
        if self.seq_len is None:
            self.seq_len = x.shape[0]
        elif x.shape[0] not in (-1, self.seq_len):
            raise ValueError("Static RNN only take fix seq_len input")
        part = self.helper.create_variable(name=x.name, dtype=x.dtype, shape=list(x.shape[1:]), type=x.type)
        self.inputs.append(part)
        return part

    def step_output(self, o: Variable) -> None:
        """Make `o` an output: its values of all steps, stacked."""
        self._assert_in_rnn_block_("step_output")
        check_type(o, "o", Variable, "fluid.layers.StaticRNN.step_output")
        inner = self._kept(o)
        assert self.seq_len is not None, "step_input comes before step_output"
        self.outputs.append(
            self._parent_block().create_var(
                name=inner.name, shape=[self.seq_len, *inner.shape], dtype=inner.dtype
            )
        )

    def _kept(self, var: Variable) -> Variable:
        """A variable of the step that holds the value of `var` for what comes after the step."""
        kept = self.helper.create_variable_for_type_inference(dtype=var.dtype)
        self.helper.append_op(
            type="rnn_memory_helper", inputs={"X": [var]}, outputs={"Out": kept}, attrs={"dtype": var.dtype}
        )
        return kept

    def output(self, *outputs: Variable) -> None:
        """`step_output` for each."""
        for var in outputs:
            self.step_output(var)

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """Leave `var` as the memory `mem` of the next step."""
        check_type(mem, "mem", Variable, "fluid.layers.StaticRNN.update_memory")
        check_type(var, "var", Variable, "fluid.layers.StaticRNN.update_memory")
        self.memories[mem.name].mem = var

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.status != StaticRNN.AFTER_RNN_BLOCK:
            raise ValueError("RNN output can only be retrieved after rnn block")
        if not self.outputs:
            raise ValueError("RNN has no output")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def _parameters(self, body: Block) -> list[str]:
        """Outer variables that the step reads, besides its inputs and memories."""
        local = (
            {name for op in body.ops for name in op.output_arg_names}
            | {var.name for var in self.inputs}
            | set(self.memories)
        )
        return list(
            dict.fromkeys(name for op in body.ops for name in op.input_arg_names if name not in local)
        )

    def _complete_op(self) -> None:
        body, parent = self.helper.main_program.current_block(), self._parent_block()
        parameters = [parent._var_recursive(name) for name in self._parameters(body)]
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        states = []
        for link in self.memories.values():
            assert link.mem is not None, f"{link.init.name} should be updated in every step."
            states.append(self._kept(body.var(link.mem.name)).name)
        parent.append_op(
            type="recurrent",
            inputs={
                "inputs": [parent._var_recursive(var.name) for var in self.inputs],
                "initial_states": [link.init for link in self.memories.values()],
                "parameters": parameters,
            },
            outputs={"outputs": self.outputs, "step_scopes": [scopes]},
            attrs={
                "has_states": len(states) > 0,
                "ex_states": [link.pre_mem.name for link in self.memories.values()],
                "states": states,
                "sub_block": body,
            },
        )
