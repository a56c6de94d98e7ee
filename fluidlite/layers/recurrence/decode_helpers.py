"""Answers to a `BasicDecoder`: which inputs come first, which ids to take from the outputs, and which inputs
come next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.layers import tensor, utils
from fluidlite.layers.arithmetic import compare, reduce
from fluidlite.layers.neural import vision
from fluidlite.layers.tensors import indexing, random, shaping, variables
from fluidlite.layers.tensors.constants import fill_constant, fill_constant_batch_size_like

__all__ = ["DecodeHelper", "GreedyEmbeddingHelper", "SampleEmbeddingHelper", "TrainingHelper"]


class DecodeHelper:
    """Base of the helpers; a subclass writes each method."""

    def initialize(self) -> Any:
        """(first inputs, which rows are finished before they begin)."""

    def sample(self, time: Variable, outputs: Any, states: Any) -> Any:
        """The ids [batch] to take from the outputs of a step."""

    def next_inputs(self, time: Variable, outputs: Any, states: Any, sample_ids: Variable) -> Any:
        """(which rows are finished, inputs of the next step, states of the next step)."""


class TrainingHelper(DecodeHelper):
    """Feeds the rows of `inputs` [batch, time, ...] (or [time, batch, ...] if `time_major`), whatever the
    decoder says.

    `sequence_length` [batch] is the number of steps of each row.
    """

    def __init__(self, inputs: Any, sequence_length: Variable, time_major: bool = False) -> None:
        self.inputs = inputs
        self.sequence_length = sequence_length
        self.time_major = time_major
        self.inputs_ = utils.map_structure(self._longer, inputs)

    def _longer(self, x: Variable) -> Variable:
        """`x` with a step of zeros at its end, which the last step will ask for."""
        widths = [0] * (2 * len(x.shape))
        widths[1 if self.time_major else 3] = 1
        return vision.pad(x, paddings=widths)

    def initialize(self) -> tuple[Any, Variable]:
        """(the first steps, which rows have none)."""
        none = fill_constant(shape=[1], dtype=self.sequence_length.dtype, value=0)
        finished = compare.equal(self.sequence_length, none)
        return utils.map_structure(lambda x: x[0] if self.time_major else x[:, 0], self.inputs), finished

    def sample(self, time: Variable, outputs: Variable, states: Any) -> Variable:
        """The best id of each row."""
        return tensor.argmax(outputs, axis=-1)

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Variable, Any, Any]:
        """(which rows end with the next step, that step, states as they are)."""
        now, lengths = _as_int32(time), _as_int32(self.sequence_length)
        following = now + 1
        finished = compare.less_equal(lengths, following)
        return finished, utils.map_structure(lambda x: self._step(x, following), self.inputs_), states

    def _step(self, x: Variable, time: Variable) -> Variable:
        axis = [0 if self.time_major else 1]
        return shaping.squeeze(indexing.slice(x, axes=axis, starts=[time], ends=[time + 1]), axes=axis)


def _as_int32(x: Variable) -> Variable:
    return x if x.dtype == VarType.INT32 else variables.cast(x, "int32")


class GreedyEmbeddingHelper(DecodeHelper):
    """Feeds `embedding_fn` of the best ids; a row is finished when that is `end_token`. `start_tokens`
    [batch] come first.
    """

    def __init__(
        self, embedding_fn: Callable[[Variable], Any], start_tokens: Variable, end_token: int
    ) -> None:
        self.embedding_fn = embedding_fn
        self.start_tokens = start_tokens
        self.end_token = fill_constant(shape=[1], dtype="int64", value=end_token)

    def initialize(self) -> tuple[Any, Variable]:
        """(embeddings of the start tokens, no row finished)."""
        finished = fill_constant_batch_size_like(
            input=self.start_tokens, shape=[-1], dtype="bool", value=False, force_cpu=True
        )
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time: Variable, outputs: Variable, states: Any) -> Variable:
        """The best id of each row."""
        return tensor.argmax(outputs, axis=-1)

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Variable, Any, Any]:
        """(which ids are the end token, embeddings of the ids, states as they are)."""
        finished = compare.equal(sample_ids, self.end_token)
        return finished, self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Feeds `embedding_fn` of ids drawn with the softmax of the outputs, which are divided by
    `softmax_temperature` first.
    """

    def __init__(
        self,
        embedding_fn: Callable[[Variable], Any],
        start_tokens: Variable,
        end_token: int,
        softmax_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature = (
            None
            if softmax_temperature is None
            else fill_constant(shape=[1], dtype="float32", value=softmax_temperature)
        )
        self.seed = seed

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        """An id drawn for each row."""
        if self.softmax_temperature is not None:
            outputs = outputs / self.softmax_temperature
        probs = reduce.softmax(outputs)
        probs.stop_gradient = True
        return random.sampling_id(probs, seed=self.seed or 0, dtype=self.start_tokens.dtype)
