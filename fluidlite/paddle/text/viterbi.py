"""Decoding of sequences of tags."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append_several
from fluidlite.paddle.nn.layer.base import Layer

__all__ = ["ViterbiDecoder", "viterbi_decode"]


def viterbi_decode(
    potentials: Variable,
    transition_params: Variable,
    lengths: Variable,
    include_bos_eos_tag: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The scores [batch] and the tags [batch, longest] of the best sequences: `potentials` [batch, time,
    tags] are the scores of tags, `transition_params` [tags, tags] those of a tag behind another. With
    `include_bos_eos_tag` its last row is added to the scores of first tags, the last but one to those of last
    tags.
    """
    inputs = {"Input": [potentials], "Transition": [transition_params], "Length": [lengths]}
    kinds = {"Scores": potentials.dtype, "Path": VarType.INT64}
    attrs = {"include_bos_eos_tag": include_bos_eos_tag}
    scores, path = append_several("viterbi_decode", inputs, attrs, kinds)
    return scores, path


class ViterbiDecoder(Layer):
    """The best sequences of tags, with one table of transitions; see `viterbi_decode`."""

    def __init__(self, transitions: Any, include_bos_eos_tag: bool = True, name: str | None = None) -> None:
        super().__init__()
        self.transitions, self.include_bos_eos_tag = transitions, include_bos_eos_tag

    def forward(self, potentials: Any, lengths: Any) -> Any:
        """The scores and the tags."""
        return viterbi_decode(potentials, self.transitions, lengths, self.include_bos_eos_tag)
