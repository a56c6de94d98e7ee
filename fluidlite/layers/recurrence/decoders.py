"""Decoders, which make one token a step from the token before, and `dynamic_decode`, which runs one until
all rows are finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.ir.program import default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.layers import tensor, utils
from fluidlite.layers.arithmetic import activations, compare, elementwise, reduce
from fluidlite.layers.flow import array
from fluidlite.layers.flow.while_loop import While
from fluidlite.layers.recurrence.decode_helpers import DecodeHelper
from fluidlite.layers.recurrence.rnn_cells import RNNCell, choose, swap_batch_and_time
from fluidlite.layers.tensors import indexing, search, shaping, variables
from fluidlite.layers.tensors.constants import fill_constant, fill_constant_batch_size_like, zeros_like
from fluidlite.layers.tensors.constants import range as count

__all__ = ["BasicDecoder", "BeamSearchDecoder", "Decoder", "dynamic_decode"]

NEVER = 1e9  # minus this is the log probability of what must not be chosen


class Decoder:
    """One step of a decoding; inputs, states and outputs may be nested structures of Variables."""

    def initialize(self, inits: Any) -> Any:
        """(first inputs, first states, which rows are finished); TypeError unless a subclass defines it."""
        raise TypeError(f"{type(self).__name__} must implement initialize")

    def step(self, time: Variable, inputs: Any, states: Any, **kwargs: Any) -> Any:
        """(outputs, next states, next inputs, which rows are finished); TypeError unless a subclass defines
        it.
        """
        raise TypeError(f"{type(self).__name__} must implement step")

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Variable) -> Any:
        """(outputs, final states) of all steps together, outputs [time, batch, ...]; as they are unless a
        subclass changes them.
        """
        return outputs, final_states

    @property
    def tracks_own_finished(self) -> bool:
        """True if `step` says itself which rows are finished, though rows change places; the lengths are then
        its states'. 1.8.5 takes what was finished in a place for finished for ever.
        """
        return False


class BasicDecoder(Decoder):
    """A cell whose inputs come from a `DecodeHelper`; `output_fn` is applied to its outputs."""

    class OutputWrapper(NamedTuple):
        """Outputs of a step."""

        cell_outputs: Any
        sample_ids: Any

    def __init__(
        self, cell: RNNCell, helper: DecodeHelper, output_fn: Callable[[Any], Any] | None = None
    ) -> None:
        self.cell = cell
        self.helper = helper
        self.output_fn = output_fn

    def initialize(self, initial_cell_states: Any) -> tuple[Any, Any, Variable]:
        """The helper's first inputs, the given states."""
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(self, time: Variable, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any, Any, Variable]:
        """One step of the cell, what the helper samples from it, and the helper's next inputs."""
        cell_outputs, cell_states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            cell_outputs = self.output_fn(cell_outputs)
        sample_ids = self.helper.sample(time=time, outputs=cell_outputs, states=cell_states)
        sample_ids.stop_gradient = True
        finished, next_inputs, next_states = self.helper.next_inputs(
            time=time, outputs=cell_outputs, states=cell_states, sample_ids=sample_ids
        )
        return self.OutputWrapper(cell_outputs, sample_ids), next_states, next_inputs, finished


# ---------------------------------------------------------------------- beam search
class BeamSearchDecoder(Decoder):
    """Keeps the `beam_size` best prefixes of each row; states are [batch, beam, ...] outside the cell, [batch
    x beam, ...] inside.

    Tensors of other kinds that the cell reads, such as encoder outputs, must be tiled by
    `tile_beam_merge_with_batch`.
    """

    class OutputWrapper(NamedTuple):
        """Outputs of a step, each [batch, beam]."""

        scores: Any
        predicted_ids: Any
        parent_ids: Any

    class StateWrapper(NamedTuple):
        """State of each prefix."""

        cell_states: Any
        log_probs: Any
        finished: Any
        lengths: Any

    def __init__(
        self,
        cell: RNNCell,
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable[[Variable], Any] | None = None,
        output_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self.cell = cell
        self.embedding_fn = embedding_fn
        self.output_fn = output_fn
        self.start_token = start_token
        self.end_token = end_token
        self.beam_size = beam_size

    @staticmethod
    def tile_beam_merge_with_batch(x: Variable, beam_size: int) -> Variable:
        """[batch, ...] with each row `beam_size` times: [batch x beam_size, ...]."""
        copies = shaping.expand(shaping.unsqueeze(x, [1]), [1, beam_size] + [1] * (len(x.shape) - 1))
        rank = len(x.shape) + 1
        last = shaping.transpose(copies, [*range(2, rank), 0, 1])
        merged = shaping.reshape(last, shape=[0] * (rank - 2) + [-1])
        return shaping.transpose(merged, [rank - 2, *range(rank - 2)])

    # ------------------------------------------------------------------ shapes
    def _split_batch_beams(self, x: Variable) -> Variable:
        """[batch x beam, ...] as [batch, beam, ...]."""
        return shaping.reshape(x, shape=[-1, self.beam_size, *x.shape[1:]])

    def _merge_batch_beams(self, x: Variable) -> Variable:
        """[batch, beam, ...] as [batch x beam, ...]."""
        return shaping.reshape(x, shape=[-1, *x.shape[2:]])

    def _expand_to_beam_size(self, x: Variable) -> Variable:
        """[batch, ...] as [batch, beam, ...], all beams the same."""
        x = shaping.unsqueeze(x, [1])
        return shaping.expand(x, [1, self.beam_size] + [1] * (len(x.shape) - 2))

    def _gather(self, x: Variable, indices: Variable, batch_size: Variable) -> Variable:
        """x[b, indices[b, k]] for each row b and beam k."""
        if batch_size.dtype != indices.dtype:
            batch_size = variables.cast(batch_size, indices.dtype)
            batch_size.stop_gradient = True
        rows = shaping.unsqueeze(count(0, batch_size, 1, dtype=indices.dtype), [1])
        places = shaping.stack([shaping.expand(rows, [1, self.beam_size]), indices], axis=2)
        places.stop_gradient = True
        return indexing.gather_nd(x, places)

    def _mask_probs(self, probs: Variable, finished: Variable) -> Variable:
        """Log probabilities that leave finished beams nothing but the end token."""
        done = variables.cast(finished, dtype=probs.dtype)
        forced = shaping.expand(shaping.unsqueeze(done, [2]), [1, 1, self.vocab_size])
        forced = elementwise.elementwise_mul(forced, self.noend_mask_tensor, axis=-1)
        masked: Variable = forced - elementwise.elementwise_mul(probs, (done - 1), axis=0)
        return masked

    # ------------------------------------------------------------------ decoding
    @property
    def tracks_own_finished(self) -> bool:
        """True in programs of 2.x: a beam that is finished may change places with another one."""
        return default_main_program().is_of_2x

    def initialize(self, initial_cell_states: Any) -> tuple[Any, StateWrapper, Variable]:
        """Start tokens in all beams; all but the first of a row's beams are next to impossible, so that
        they do not repeat it.
        """
        state = utils.flatten(initial_cell_states)[0]
        self.batch_size = search.shape(state)[0]
        self.start_token_tensor = fill_constant(shape=[1], dtype="int64", value=self.start_token)
        self.end_token_tensor = fill_constant(shape=[1], dtype="int64", value=self.end_token)
        cell_states = utils.map_structure(self._expand_to_beam_size, initial_cell_states)
        tokens = self._expand_to_beam_size(shaping.expand(self.start_token_tensor, [self.batch_size]))
        first = variables.assign(np.array([[0.0] + [-NEVER] * (self.beam_size - 1)], dtype="float32"))
        log_probs = shaping.expand(first, [self.batch_size, 1])
        finished = fill_constant_batch_size_like(
            input=state, shape=[-1, self.beam_size], dtype="bool", value=False, force_cpu=True
        )
        lengths = zeros_like(tokens)
        inputs = self.embedding_fn(tokens) if self.embedding_fn else tokens
        return inputs, self.StateWrapper(cell_states, log_probs, finished, lengths), finished

    def step(self, time: Variable, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any, Any, Variable]:
        """One step of the cell for all beams, and the best continuations."""
        cell_outputs, cell_states = self.cell(
            utils.map_structure(self._merge_batch_beams, inputs),
            utils.map_structure(self._merge_batch_beams, states.cell_states),
            **kwargs,
        )
        cell_outputs = utils.map_structure(self._split_batch_beams, cell_outputs)
        cell_states = utils.map_structure(self._split_batch_beams, cell_states)
        if self.output_fn is not None:
            cell_outputs = self.output_fn(cell_outputs)
        found, state = self._beam_search_step(
            time=time, logits=cell_outputs, next_cell_states=cell_states, beam_state=states
        )
        found.predicted_ids.stop_gradient = True
        following = self.embedding_fn(found.predicted_ids) if self.embedding_fn else found.predicted_ids
        return found, state, following, state.finished

    def _beam_search_step(
        self, time: Variable, logits: Variable, next_cell_states: Any, beam_state: StateWrapper
    ) -> tuple[OutputWrapper, StateWrapper]:
        """The best continuations of all beams of a row, by the sum of their log probabilities."""
        self._prepare(logits.shape[-1])
        step_probs = self._mask_probs(activations.log(reduce.softmax(logits)), beam_state.finished)
        totals = elementwise.elementwise_add(x=step_probs, y=beam_state.log_probs, axis=0)
        scores, places = search.topk(input=self._flat(totals), k=self.beam_size)
        parents = elementwise.elementwise_floordiv(places, self.vocab_size_tensor)
        tokens = elementwise.elementwise_mod(places, self.vocab_size_tensor)
        log_probs = self._gather(self._flat(totals), places, self.batch_size)
        cell_states = utils.map_structure(
            lambda x: self._gather(x, parents, self.batch_size), next_cell_states
        )
        finished = self._gather(beam_state.finished, parents, self.batch_size)
        lengths = self._gather(beam_state.lengths, parents, self.batch_size)
        lengths = lengths + variables.cast(compare.logical_not(finished), beam_state.lengths.dtype)
        finished = compare.logical_or(finished, compare.equal(tokens, self.end_token_tensor))
        return self.OutputWrapper(scores, tokens, parents), self.StateWrapper(
            cell_states, log_probs, finished, lengths
        )

    def _prepare(self, vocab_size: int) -> None:
        """Constants that depend on the number of tokens."""
        self.vocab_size = vocab_size
        self.vocab_size_tensor = fill_constant(shape=[1], dtype="int64", value=vocab_size)
        mask = np.full([vocab_size], -NEVER, dtype="float32")
        mask[self.end_token] = 0
        self.noend_mask_tensor = variables.assign(mask)

    def _flat(self, scores: Variable) -> Variable:
        return shaping.reshape(scores, [-1, self.beam_size * self.vocab_size])

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Variable) -> tuple[Variable, Any]:
        """Token ids [time, batch, beam], read back from the last step along the parents."""
        return search.gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states


# ---------------------------------------------------------------------- the loop
def dynamic_decode(
    decoder: Decoder,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: Any,
) -> Any:
    """(outputs, final states[, lengths]) of `decoder.step` repeated until all rows are finished, or
    `max_step_num` is passed.

    Outputs are [batch, time, ...], or [time, batch, ...] if `output_time_major`. `impute_finished` leaves the
    states of finished rows as they are. `is_test` keeps nothing for a gradient. Other arguments go to the
    decoder's step.
    """
    loop = _DecodingLoop(decoder, inits, max_step_num, impute_finished, is_test)
    outputs, states = loop.run(kwargs)
    outputs, states = decoder.finalize(outputs, states, loop.lengths)
    if not output_time_major:
        outputs = utils.map_structure(swap_batch_and_time, outputs)
    return (outputs, states, loop.lengths) if return_length else (outputs, states)


class _DecodingLoop:
    """The while loop of a decoding: inputs and states go from step to step in arrays, or, testing, in
    variables.
    """

    def __init__(
        self, decoder: Decoder, inits: Any, max_step_num: int | None, impute_finished: bool, is_test: bool
    ) -> None:
        self.decoder, self.impute_finished, self.is_test = decoder, impute_finished, is_test
        self.inputs, self.states, self.finished = decoder.initialize(inits)
        self.time = fill_constant(shape=[1], dtype="int64", value=0)
        self.going = compare.logical_not(reduce.reduce_all(self.finished))
        self.limit = (
            None if max_step_num is None else fill_constant(shape=[1], dtype="int64", value=max_step_num)
        )
        self.lengths = variables.cast(zeros_like(self.finished), "int64")
        self.lengths.stop_gradient = True
        self.outputs: Any = None
        if not is_test:
            self.inputs = utils.map_structure(self._first, self.inputs)
            self.states = utils.map_structure(self._first, self.states)

    def _first(self, x: Variable) -> Variable:
        return array.array_write(x, self.time)

    def _read(self, x: Variable) -> Variable:
        return array.array_read(x, self.time)

    def _write(self, x: Variable, target: Variable) -> Variable:
        return array.array_write(x, i=self.time, array=target)

    def run(self, arguments: dict[str, Any]) -> tuple[Any, Any]:
        """Outputs [time, batch, ...] and final states."""
        loop = While(self.going, is_test=self.is_test)
        with loop.block():
            self._step(arguments)
        outputs = utils.map_structure(
            lambda steps: tensor.tensor_array_to_tensor(steps, axis=0, use_stack=True)[0], self.outputs
        )
        states = (
            self.states
            if self.is_test
            else utils.map_structure(lambda steps: array.array_read(steps, self.time), self.states)
        )
        return outputs, states

    def _step(self, arguments: dict[str, Any]) -> None:
        inputs = self.inputs if self.is_test else utils.map_structure(self._read, self.inputs)
        states = self.states if self.is_test else utils.map_structure(self._read, self.states)
        outputs, next_states, next_inputs, finished = self.decoder.step(
            self.time, inputs, states, **arguments
        )
        if self.decoder.tracks_own_finished:
            lengths = getattr(next_states, "lengths", self.lengths)
        else:
            finished = compare.logical_or(finished, self.finished)
            running = variables.cast(compare.logical_not(self.finished), self.lengths.dtype)
            lengths = elementwise.elementwise_add(self.lengths, running)
            if self.impute_finished:
                next_states = utils.map_structure(
                    lambda old, new: _kept(old, new, self.finished), states, next_states
                )
        self.outputs = utils.map_structure(_outer_array, outputs)
        utils.map_structure(self._write, outputs, self.outputs)
        array.increment(x=self.time, value=1.0, in_place=True)
        carry = variables.assign if self.is_test else self._write
        utils.map_structure(carry, next_inputs, self.inputs)
        utils.map_structure(carry, next_states, self.states)
        # the decoder's states may hold the flags of the finished as well: they are overwritten here
        variables.assign(finished, self.finished)
        variables.assign(lengths, self.lengths)
        self._decide()

    def _decide(self) -> None:
        """Write the condition under which the loop goes on."""
        done = reduce.reduce_all(self.finished)
        if self.limit is None:
            compare.logical_not(done, self.going)
        else:
            compare.logical_and(
                compare.logical_not(done), compare.less_equal(self.time, self.limit), self.going
            )


def _outer_array(x: Variable) -> Variable:
    """An array of the block around the one that is being written."""
    program = default_main_program()
    inner = program.current_block_idx
    program.current_block_idx = program.current_block().parent_idx
    made = array.create_array(x.dtype)
    program.current_block_idx = inner
    return made


def _kept(old: Variable, new: Variable, finished: Variable) -> Variable:
    """`old` in the rows that are finished, `new` in the others."""
    kind = old.dtype
    if kind == VarType.BOOL:
        old, new = variables.cast(old, "float32"), variables.cast(new, "float32")
    mask = variables.cast(finished, old.dtype)
    mask.stop_gradient = True
    chosen = choose(mask, old, new)
    return variables.cast(chosen, "bool") if kind == VarType.BOOL else chosen
