"""Decoders over sequences of levels of detail.

A `StateCell` holds the states of a step and the way in which they follow from each other; `TrainingDecoder`
runs it over given words, `BeamSearchDecoder` over the best that it finds.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.activations import log
from fluidlite.layers.arithmetic.compare import less_than
from fluidlite.layers.arithmetic.elementwise import elementwise_add
from fluidlite.layers.arithmetic.products import embedding, fc
from fluidlite.layers.flow.array import array_read, array_write, increment, is_empty
from fluidlite.layers.flow.conditional import Switch
from fluidlite.layers.flow.while_loop import While
from fluidlite.layers.recurrence.dynamic_rnn import DynamicRNN
from fluidlite.layers.recurrence.recurrent import beam_search, beam_search_decode
from fluidlite.layers.sequence_lod import sequence_expand
from fluidlite.layers.tensors.constants import fill_constant, fill_constant_batch_size_like, zeros
from fluidlite.layers.tensors.lod import lod_reset
from fluidlite.layers.tensors.search import topk
from fluidlite.layers.tensors.shaping import reshape

__all__ = ["BeamSearchDecoder", "InitState", "StateCell", "TrainingDecoder"]


class _DecoderType(enum.Enum):
    TRAINING = 1
    BEAM_SEARCH = 2


class _Stage(enum.Enum):
    """States of a decoder, whose block is written once."""

    BEFORE = 0
    INSIDE = 1
    AFTER = 2


class InitState:
    """The value that a state begins with: `init`, or `value` in `shape` with the batch of `init_boot`.

    need_reorder: the decoder sorts its sequences by length, and this value does not come sorted like that.
    """

    def __init__(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        init_boot: Variable | None = None,
        need_reorder: bool = False,
        dtype: DTypeLike = "float32",
    ) -> None:
        if init is None:
            if init_boot is None or shape is None:
                raise ValueError("init_boot must be provided to infer the shape of InitState .\n")
            init = fill_constant_batch_size_like(input=init_boot, value=value, shape=list(shape), dtype=dtype)
        self._init = init
        self._need_reorder = need_reorder

    @property
    def value(self) -> Variable:
        """The variable itself."""
        return self._init

    @property
    def need_reorder(self) -> bool:
        """True if it has to be sorted as the decoder's sequences are."""
        return self._need_reorder


class _MemoryState:
    """A state of a `TrainingDecoder`: a memory of its recurrence."""

    def __init__(self, rnn: DynamicRNN, start: InitState) -> None:
        self._rnn = rnn
        self._memory = rnn.memory(init=start.value, need_reorder=start.need_reorder)

    def get_state(self) -> Variable:
        """The value that the step before left."""
        return self._memory

    def update_state(self, state: Variable) -> None:
        """Leave `state` to the next step."""
        self._rnn.update_memory(self._memory, state)


class _ArrayState:
    """A state of a `BeamSearchDecoder`: a tensor array with an entry a step, and its own counter."""

    def __init__(self, block: Block, start: InitState) -> None:
        self._array = block.create_var(
            name=unique_name.generate("array_state_array"),
            type=VarType.LOD_TENSOR_ARRAY,
            dtype=start.value.dtype,
        )
        self._counter = block.create_var(
            name=unique_name.generate("array_state_counter"), dtype="int64", stop_gradient=True
        )
        zero = {"shape": [1], "dtype": int(VarType.INT64), "value": 0.0, "force_cpu": True}
        block.append_op(type="fill_constant", outputs={"Out": [self._counter]}, attrs=zero)
        block.append_op(
            type="write_to_array", inputs={"X": start.value, "I": self._counter}, outputs={"Out": self._array}
        )

    def get_state(self) -> Variable:
        """The value that the step before left."""
        return array_read(array=self._array, i=self._counter)

    def update_state(self, state: Variable) -> None:
        """Leave `state` to the next step."""
        increment(x=self._counter, value=1.0, in_place=True)
        array_write(state, array=self._array, i=self._counter)


class StateCell:
    """The states of one step, and how they follow from its inputs.

        hidden = InitState(init=context)
        cell = StateCell(inputs={"word": None}, states={"hidden": hidden}, out_state="hidden")

        @cell.state_updater
        def _(cell):
            inputs = [cell.get_state("hidden"), cell.get_input("word")]
            cell.set_state("hidden", fc(inputs, 32, act="tanh"))

    Parameters
    ----------
    inputs: names of the inputs; values are given to `compute_state`.
    states: name -> InitState.
    out_state: the state that a decoder predicts from.
    """

    def __init__(
        self,
        inputs: Mapping[str, Any],
        states: Mapping[str, InitState],
        out_state: str,
        name: str | None = None,
    ) -> None:
        self._helper = LayerHelper("state_cell", name=name)
        for start in states.values():
            if not isinstance(start, InitState):
                raise ValueError("state must be an InitState object.")
        if out_state not in states:
            raise ValueError("out_state must be one state in states")
        self._inputs = dict(inputs)
        self._starts = dict(states)
        self._state_names = list(states)
        self._out_state = out_state
        self._cur_states: dict[str, Any] = dict(states)
        self._decoder: TrainingDecoder | ArrayBeamSearchDecoder | None = None
        self._held: dict[str, _MemoryState | _ArrayState] = {}
        self._state_updater: Callable[[StateCell], None] | None = None

    # ------------------------------------------------------------------ decoders
    def _enter_decoder(self, decoder_obj: TrainingDecoder | ArrayBeamSearchDecoder) -> None:
        if self._decoder is not None:
            raise ValueError("StateCell has already entered a decoder.")
        self._decoder, self._held = decoder_obj, {}

    def _leave_decoder(self, decoder_obj: TrainingDecoder | ArrayBeamSearchDecoder) -> None:
        if self._decoder is None:
            raise ValueError("StateCell not in decoder, invalid leaving operation.")
        if self._decoder is not decoder_obj:
            raise ValueError("Inconsistent decoder object in StateCell.")
        self._decoder = None

    def _switch_decoder(self) -> None:
        """Take the states from where the decoder keeps them; each decoder does so once."""
        if self._decoder is None or self._held:
            return
        for name in self._state_names:
            self._held[name] = self._decoder._hold(self._starts[name])
            self._cur_states[name] = self._held[name].get_state()

    # ------------------------------------------------------------------ what an updater asks
    def get_state(self, state_name: str) -> Variable:
        """A state, by its name."""
        self._switch_decoder()
        if state_name not in self._cur_states:
            raise ValueError(f"Unknown state {state_name}. The cell has {', '.join(self._state_names)}.")
        state: Variable = self._cur_states[state_name]
        return state

    def get_input(self, input_name: str) -> Variable:
        """An input, by its name, as `compute_state` was given it."""
        if self._inputs.get(input_name) is None:
            raise ValueError(f"Invalid input {input_name}.")
        found: Variable = self._inputs[input_name]
        return found

    def set_state(self, state_name: str, state_value: Variable) -> None:
        """Give a state its new value, which `update_states` passes on to the next step."""
        self._cur_states[state_name] = state_value

    def state_updater(self, updater: Callable[[StateCell], None]) -> Callable[[StateCell], None]:
        """Decorator for the function that sets the states from inputs and states before."""
        self._state_updater = updater
        return updater

    # ------------------------------------------------------------------ what a decoder asks
    def compute_state(self, inputs: Mapping[str, Variable]) -> None:
        """Have the updater work on these inputs."""
        self._switch_decoder()
        for name, value in inputs.items():
            if name not in self._inputs:
                raise ValueError(
                    f"Unknown input {name}. Please make sure {name} in input place holder: "
                    f"{', '.join(self._inputs)}."
                )
            self._inputs[name] = value
        if self._state_updater is None:
            raise ValueError("the cell has no updater: decorate a function with its state_updater")
        self._state_updater(self)

    def update_states(self) -> None:
        """Leave the states to the next step."""
        self._switch_decoder()
        for name, held in self._held.items():
            held.update_state(self._cur_states[name])

    def out_state(self) -> Variable:
        """The state that a decoder predicts from."""
        state: Variable = self._cur_states[self._out_state]
        return state


class TrainingDecoder:
    """Runs a cell over given sequences; in `with decoder.block():` stand `step_input`, the cell's steps and
    `output`, and calling it afterwards gives the outputs as sequences.
    """

    BEFORE_DECODER, IN_DECODER, AFTER_DECODER = _Stage

    def __init__(self, state_cell: StateCell, name: str | None = None) -> None:
        self._helper = LayerHelper("training_decoder", name=name)
        self._status = _Stage.BEFORE
        self._dynamic_rnn = DynamicRNN()
        self._state_cell = state_cell
        state_cell._enter_decoder(self)

    def _hold(self, start: InitState) -> _MemoryState:
        return _MemoryState(self._dynamic_rnn, start)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """The `with` for one step."""
        if self._status is not _Stage.BEFORE:
            raise ValueError("decoder.block() can only be invoked once")
        self._status = _Stage.INSIDE
        with self._dynamic_rnn.block():
            yield
        self._status = _Stage.AFTER
        self._state_cell._leave_decoder(self)

    @property
    def state_cell(self) -> StateCell:
        """The cell, inside of the block."""
        self._assert_in_decoder_block("state_cell")
        return self._state_cell

    @property
    def dynamic_rnn(self) -> DynamicRNN:
        """The recurrence that the block becomes."""
        return self._dynamic_rnn

    @property
    def type(self) -> _DecoderType:
        """The kind of decoder."""
        return _DecoderType.TRAINING

    def step_input(self, x: Variable) -> Variable:
        """The rows of this step of sequences `x`."""
        self._assert_in_decoder_block("step_input")
        return self._dynamic_rnn.step_input(x)

    def static_input(self, x: Variable) -> Variable:
        """`x`, the same in all steps."""
        self._assert_in_decoder_block("static_input")
        return self._dynamic_rnn.static_input(x)

    def output(self, *outputs: Variable) -> None:
        """Make these outputs."""
        self._assert_in_decoder_block("output")
        self._dynamic_rnn.output(*outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._status is not _Stage.AFTER:
            raise ValueError("Output of training decoder can only be visited outside the block.")
        return self._dynamic_rnn(*args, **kwargs)

    def _assert_in_decoder_block(self, method: str) -> None:
        if self._status is not _Stage.INSIDE:
            raise ValueError(f"{method} should be invoked inside block of TrainingDecoder object.")


class ArrayBeamSearchDecoder:
    """Runs a cell over the words that it finds best, `beam_size` at a time, in a `While` loop over tensor
    arrays. Offered as `BeamSearchDecoder`.

    `decode()` writes the loop: embed the words of the beams, compute the states, predict, choose. Calling the
    object afterwards gives (sentences, their scores), of two levels of detail. Another loop can be written in
    `with decoder.block():` with `read_array`, `update_array` and `early_stop`.

    Parameters
    ----------
    init_ids, init_scores: what each beam begins with, of two levels of detail.
    target_dict_dim, word_dim: rows and columns of the table of words.
    input_var_dict: values for inputs of the cell; the others get the words' embeddings.
    topk_size: how many words of each beam are looked at.
    max_len: most steps; the search ends earlier when all beams have ended with `end_id`.
    """

    BEFORE_BEAM_SEARCH_DECODER, IN_BEAM_SEARCH_DECODER, AFTER_BEAM_SEARCH_DECODER = _Stage

    def __init__(
        self,
        state_cell: StateCell,
        init_ids: Variable,
        init_scores: Variable,
        target_dict_dim: int,
        word_dim: int,
        input_var_dict: Mapping[str, Variable] | None = None,
        topk_size: int = 50,
        sparse_emb: bool = True,
        max_len: int = 100,
        beam_size: int = 1,
        end_id: int = 1,
        name: str | None = None,
    ) -> None:
        self._helper = LayerHelper("beam_search_decoder", name=name)
        self._counter = zeros(shape=[1], dtype="int64")
        self._counter.stop_gradient = True
        self._max_len = fill_constant(shape=[1], dtype="int64", value=max_len)
        self._cond = less_than(x=self._counter, y=fill_constant(shape=[1], dtype="int64", value=max_len))
        self._while_op = While(self._cond)
        self._zero_idx = fill_constant(shape=[1], value=0, dtype="int64", force_cpu=True)
        self._state_cell = state_cell
        state_cell._enter_decoder(self)
        self._status = _Stage.BEFORE
        self._array_dict: dict[str, Variable] = {}
        self._array_link: list[tuple[Variable, Variable]] = []
        self._ids_array: Variable | None = None
        self._scores_array: Variable | None = None
        self._init_ids, self._init_scores = init_ids, init_scores
        self._target_dict_dim, self._word_dim = target_dict_dim, word_dim
        self._input_var_dict = dict(input_var_dict or {})
        self._topk_size, self._sparse_emb = topk_size, sparse_emb
        self._beam_size, self._end_id = beam_size, end_id

    def _hold(self, start: InitState) -> _ArrayState:
        return _ArrayState(self._parent_block(), start)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """The `with` for one step: the arrays move on behind it, unless the search has ended."""
        if self._status is not _Stage.BEFORE:
            raise ValueError("block() can only be invoked once.")
        self._status = _Stage.INSIDE
        with self._while_op.block():
            yield
            with Switch() as switch, switch.case(self._cond):
                increment(x=self._counter, value=1.0, in_place=True)
                for value, array in self._array_link:
                    array_write(x=value, i=self._counter, array=array)
                less_than(x=self._counter, y=self._max_len, cond=self._cond)
        self._status = _Stage.AFTER
        self._state_cell._leave_decoder(self)

    @property
    def type(self) -> _DecoderType:
        """The kind of decoder."""
        return _DecoderType.BEAM_SEARCH

    @property
    def state_cell(self) -> StateCell:
        """The cell, inside of the block."""
        self._assert_in_decoder_block("state_cell")
        return self._state_cell

    def early_stop(self) -> None:
        """End the search with this step."""
        fill_constant(shape=[1], value=0, dtype="bool", force_cpu=True, out=self._cond)

    def read_array(self, init: Variable, is_ids: bool = False, is_scores: bool = False) -> Variable:
        """The value that the step before left in an array of its own, which begins with `init`.

        `is_ids`, `is_scores`: it is the array that sentences, or their scores, are read from at the end.
        """
        self._assert_in_decoder_block("read_array")
        if is_ids and is_scores:
            raise ValueError("Shouldn't mark current array be ids array and scores array at the same time.")
        if not isinstance(init, Variable):
            raise TypeError(f"The input argument `init` must be a Variable, not {type(init).__name__}")
        parent = self._parent_block()
        array = parent.create_var(
            name=unique_name.generate("beam_search_decoder_array"),
            type=VarType.LOD_TENSOR_ARRAY,
            dtype=init.dtype,
        )
        parent.append_op(
            type="write_to_array", inputs={"X": init, "I": self._zero_idx}, outputs={"Out": array}
        )
        if is_ids:
            self._ids_array = array
        elif is_scores:
            self._scores_array = array
        value = array_read(array=array, i=self._counter)
        value.lod_level = init.lod_level  # each step leaves as many levels as it found
        self._array_dict[value.name] = array
        return value

    def update_array(self, array: Variable, value: Variable) -> None:
        """Leave `value` to the next step, in the array that `array` was read from."""
        self._assert_in_decoder_block("update_array")
        if not isinstance(array, Variable) or not isinstance(value, Variable):
            raise TypeError("update_array takes the Variable that was read, and the one to leave")
        if array.name not in self._array_dict:
            raise ValueError(f"Please invoke read_array before update_array: {array.name} was not read by it")
        self._array_link.append((value, self._array_dict[array.name]))

    # ------------------------------------------------------------------ the usual loop
    def decode(self) -> None:
        """Write the loop."""
        with self.block():
            ids = self.read_array(init=self._init_ids, is_ids=True)
            scores = self.read_array(init=self._init_scores, is_scores=True)
            size = [self._target_dict_dim, self._word_dim]
            words = embedding(input=ids, size=size, dtype="float32", is_sparse=self._sparse_emb)
            read, feeds = self._read_inputs(scores)
            cell = self._state_cell
            for name in cell._state_names:
                cell.set_state(name, sequence_expand(cell.get_state(name), scores))
            cell.compute_state(inputs={name: feeds.get(name, words) for name in cell._inputs})
            chosen_ids, chosen_scores = self._choose(ids, scores)
            with Switch() as switch:
                with switch.case(is_empty(chosen_ids)):
                    self.early_stop()
                with switch.default():
                    cell.update_states()
                    self.update_array(ids, chosen_ids)
                    self.update_array(scores, chosen_scores)
                    for name, value in read.items():
                        self.update_array(value, feeds[name])

    def _read_inputs(self, scores: Variable) -> tuple[dict[str, Variable], dict[str, Variable]]:
        """The inputs that come with the decoder: as they are read, and as often as there are beams."""
        read, feeds = {}, {}
        for name, init in self._input_var_dict.items():
            if name not in self._state_cell._inputs:
                raise ValueError(f"Variable {name} not found in StateCell!\n")
            read[name] = self.read_array(init=init)
            feeds[name] = sequence_expand(read[name], scores)
        return read, feeds

    def _choose(self, ids: Variable, scores: Variable) -> tuple[Variable, Variable]:
        """The words that follow, and the sentences' scores."""
        state = lod_reset(x=self._state_cell.out_state(), y=scores)
        predicted = fc(input=state, size=self._target_dict_dim, act="softmax")
        best, which = topk(predicted, k=self._topk_size)
        total = elementwise_add(x=log(x=best), y=reshape(scores, shape=[-1]), axis=0)
        chosen_ids, chosen_scores = beam_search(
            ids, scores, which, total, self._beam_size, end_id=self._end_id, level=0
        )
        return chosen_ids, chosen_scores

    def __call__(self) -> Any:
        if self._status is not _Stage.AFTER:
            raise ValueError("Output of BeamSearchDecoder object can only be visited outside the block.")
        if self._ids_array is None or self._scores_array is None:
            raise ValueError(
                "the block has to read_array its words (is_ids=True) and scores (is_scores=True)"
            )
        return beam_search_decode(
            ids=self._ids_array, scores=self._scores_array, beam_size=self._beam_size, end_id=self._end_id
        )

    def _parent_block(self) -> Block:
        """The block around the loop."""
        parent = self._helper.main_program.current_block().parent
        if parent is None:
            raise ValueError("Invalid block with parent_idx -1")
        return parent

    def _assert_in_decoder_block(self, method: str) -> None:
        if self._status is not _Stage.INSIDE:
            raise ValueError(f"{method} should be invoked inside block of BeamSearchDecoder object.")


BeamSearchDecoder = ArrayBeamSearchDecoder
