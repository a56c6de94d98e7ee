"""Layers that label sequences: conditional random fields, CTC decoding, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensors.search import topk
from fluidlite.layers.tensors.shaping import squeeze

__all__ = ["chunk_eval", "crf_decoding", "ctc_greedy_decoder", "linear_chain_crf"]


def linear_chain_crf(
    input: Variable, label: Variable, param_attr: Any = None, length: Variable | None = None
) -> Variable:
    """Minus the log likelihood of `label` under a linear-chain CRF with emission scores `input`, of shape
    [sequences, 1].

    The parameter [tags + 2, tags] holds the scores to start with a tag, to end with it, and to go from one to
    another. Sequences are the rows' level of detail, or, with `length` [N, 1], the rows of `input` [N, time,
    tags].
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "linear_chain_crf")
    check_variable_and_dtype(label, "label", ["int64"], "linear_chain_crf")
    helper = LayerHelper("linear_chain_crf", param_attr=param_attr)
    size = input.shape[2] if length is not None else input.shape[1]
    transition = helper.create_parameter(attr=helper.param_attr, shape=[size + 2, size], dtype=input.dtype)
    alpha, emission_exps, transition_exps, cost = (
        helper.create_variable_for_type_inference(dtype=input.dtype) for _ in range(4)
    )
    inputs = {"Emission": [input], "Transition": transition, "Label": [label]}
    if length is not None:
        inputs["Length"] = [length]
    helper.append_op(
        type="linear_chain_crf",
        inputs=inputs,
        outputs={
            "Alpha": [alpha],
            "EmissionExps": [emission_exps],
            "TransitionExps": transition_exps,
            "LogLikelihood": cost,
        },
    )
    return cost


def crf_decoding(
    input: Variable, param_attr: Any, label: Variable | None = None, length: Variable | None = None
) -> Variable:
    """The best tags for emission scores `input`, int64, under the transitions of the parameter named by
    `param_attr`.

    With `label`, 1 where the best tag is the label and 0 elsewhere.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "crf_decoding")
    helper = LayerHelper("crf_decoding", param_attr=param_attr)
    transition = helper.get_parameter(helper.param_attr.name)
    path = helper.create_variable_for_type_inference(dtype="int64")
    inputs = {"Emission": [input], "Transition": transition, "Label": label}
    if length is not None:
        inputs["Length"] = length
    helper.append_op(type="crf_decoding", inputs=inputs, outputs={"ViterbiPath": [path]})
    return path


def ctc_greedy_decoder(
    input: Variable,
    blank: int,
    input_length: Variable | None = None,
    padding_value: int = 0,
    name: str | None = None,
) -> Any:
    """The best class at each step, repeats merged and blanks dropped.

    Without `input_length`, for scores with a level of detail: one Variable. With it [N, 1], for scores [N,
    time, classes]: the pair (tokens [N, time] padded with `padding_value`, lengths [N, 1]).
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "ctc_greedy_decoder")
    helper = LayerHelper("ctc_greedy_decoder", name=name)
    _, best = topk(input, k=1)
    tokens = helper.create_variable_for_type_inference(dtype="int64")
    if input_length is None:
        helper.append_op(
            type="ctc_align",
            inputs={"Input": [best]},
            outputs={"Output": [tokens]},
            attrs={"merge_repeated": True, "blank": blank},
        )
        return tokens
    lengths = helper.create_variable_for_type_inference(dtype="int64")
    best = squeeze(best, [2])
    helper.append_op(
        type="ctc_align",
        inputs={"Input": [best], "InputLength": [input_length]},
        outputs={"Output": [tokens], "OutputLength": [lengths]},
        attrs={"merge_repeated": True, "blank": blank, "padding_value": padding_value},
    )
    return tokens, lengths


def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple[Variable, ...]:
    """(precision, recall, F1, number of chunks found, of chunks labelled, of chunks found that are right),
    each of shape [1].

    Tags are numbered chunk type x tags per type + tag, with the tags of `chunk_scheme` ("plain", "IOB", "IOE"
    or "IOBES").
    """
    helper = LayerHelper("chunk_eval")
    check_variable_and_dtype(input, "input", ["int64"], "chunk_eval")
    check_variable_and_dtype(label, "label", ["int64"], "chunk_eval")
    slots = ("Precision", "Recall", "F1-Score", "NumInferChunks", "NumLabelChunks", "NumCorrectChunks")
    outs = [
        helper.create_variable_for_type_inference(dtype="float32" if i < 3 else "int64")
        for i in range(len(slots))
    ]
    inputs = {"Inference": [input], "Label": [label]}
    if seq_length is not None:
        inputs["SeqLength"] = [seq_length]
    helper.append_op(
        type="chunk_eval",
        inputs=inputs,
        outputs={slot: [out] for slot, out in zip(slots, outs, strict=True)},
        attrs={
            "num_chunk_types": num_chunk_types,
            "chunk_scheme": chunk_scheme,
            "excluded_chunk_types": list(excluded_chunk_types or []),
        },
    )
    return tuple(outs)
