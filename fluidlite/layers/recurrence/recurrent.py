"""LSTM and GRU over sequences, over padded batches and step by step; one step of a beam search, and its
sentences.
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.products import fc
from fluidlite.layers.build import temporaries
from fluidlite.layers.tensors.variables import concat

__all__ = [
    "beam_search",
    "beam_search_decode",
    "dynamic_gru",
    "dynamic_lstm",
    "dynamic_lstmp",
    "gru_unit",
    "lstm",
    "lstm_unit",
]


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """An LSTM over sequences of different lengths.

    The columns of input, weight and bias stand in the order candidate, input gate, forget gate, output gate.
    With `use_peepholes` the gates also see the cell, by weights that are part of the bias.

    Parameters
    ----------
    input: a Variable [total rows, 4 * hidden] with sequences, usually made by `fc`.
    size: 4 * the number of hidden units.
    h_0: the first hidden state [number of sequences, hidden]; zeros where it is None.
    c_0: the first cell, likewise; both or none are given.
    param_attr: settings of the weight [hidden, 4 * hidden].
    bias_attr: settings of the bias [1, 4 * hidden], or [1, 7 * hidden] with peepholes.
    use_peepholes: the gates see the cell.
    is_reverse: go through each sequence from its end.
    gate_activation: the activation of the gates.
    cell_activation: the activation of the cell in the hidden state.
    candidate_activation: the activation of the candidate.
    dtype: "float32" or "float64".
    name: the prefix of the names of parameters and results.

    Returns
    -------
    Two Variables [total rows, hidden] with the same sequences: hidden state and cell after each row.

    >>> x = fluid.data("x", [None, 8], lod_level=1)
    >>> hidden, cell = fluid.layers.dynamic_lstm(fluid.layers.fc(x, 4 * 16), size=4 * 16)
    >>> hidden.shape, cell.shape
    ((-1, 16), (-1, 16))
    """
    given = locals()
    helper = _lstm_helper("lstm", "dynamic_lstm", given)
    width = size // 4
    weight = helper.create_parameter(attr=helper.param_attr, shape=[width, 4 * width], dtype=dtype)
    bias = _lstm_bias(helper, width, given)
    hidden, cell, gate, pre_act = temporaries(helper, 4, dtype)
    states = _initial("dynamic_lstm", input, (h_0, width), (c_0, width))
    helper.append_op(
        type="lstm",
        inputs={"Input": input, "Weight": weight, "Bias": bias, **states},
        outputs={"Hidden": hidden, "Cell": cell, "BatchGate": gate, "BatchCellPreAct": pre_act},
        attrs={name: given[name] for name in _LSTM_ATTRS},
    )
    return hidden, cell


_LSTM_ATTRS = ("use_peepholes", "is_reverse", "gate_activation", "cell_activation", "candidate_activation")


def _lstm_helper(type: str, layer: str, given: dict[str, Any]) -> LayerHelper:
    """The helper of an LSTM over sequences; AssertionError where `bias_attr` is False."""
    if given["bias_attr"] is False:
        raise AssertionError(f"bias_attr should not be False in {layer}.")
    check_variable_and_dtype(given["input"], "input", ["float32", "float64"], layer)
    kept = ("input", "size", "param_attr", "bias_attr", "dtype", "name")
    return LayerHelper(type, **{name: given[name] for name in kept})


def _lstm_bias(helper: LayerHelper, width: int, given: dict[str, Any]) -> Any:
    """The bias of the four gates, followed by the weights of three peepholes where there are any."""
    parts = 7 if given["use_peepholes"] else 4
    return helper.create_parameter(
        attr=helper.bias_attr, shape=[1, parts * width], dtype=given["dtype"], is_bias=True
    )


def _initial(layer: str, input: Variable, h_0: tuple[Any, int], c_0: tuple[Any, int]) -> dict[str, Variable]:
    """The slots of the initial states that are given, each with its width.

    AssertionError where one is not declared with the width, and with as many rows as the input: so
    1.8.5 has it, although sequences are fewer than rows. Any number fits an input of unknown rows.
    """
    given = {slot: state for slot, state in (("H0", h_0), ("C0", c_0)) if state[0] is not None}
    for slot, (value, width) in given.items():
        check_variable_and_dtype(value, f"{slot[0].lower()}_0", ["float32", "float64"], layer)
        rows = input.shape[0]
        wanted = (rows, width)
        if len(value.shape) != 2 or value.shape[1] != width or (rows >= 0 and value.shape[0] != rows):
            raise AssertionError(
                f"{layer}: the shape of {slot.lower()} should be {wanted}, with the rows of the input, but "
                f"is {value.shape}"
            )
    return {slot: value for slot, (value, _) in given.items()}


def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: DTypeLike = "float32",
    name: str | None = None,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> tuple[Variable, Variable]:
    """An LSTM whose hidden state is projected to `proj_size`: projections and cells."""
    given = locals()
    for clip in ("cell_clip", "proj_clip"):
        if given[clip] is not None and given[clip] < 0:
            raise AssertionError(f"dynamic_lstmp: {clip} should not be negative, but is {given[clip]}")
    helper = _lstm_helper("lstmp", "dynamic_lstmp", given)
    width = size // 4
    weight = helper.create_parameter(attr=helper.param_attr, shape=[proj_size, 4 * width], dtype=dtype)
    to_state = helper.create_parameter(attr=helper.param_attr, shape=[width, proj_size], dtype=dtype)
    bias = _lstm_bias(helper, width, given)
    # fluid makes a variable that nothing uses: the names after it count on it
    projection, cell, _, hidden, gate, pre_act = temporaries(helper, 6, dtype)
    inputs = {"Input": input, "Weight": weight, "ProjWeight": to_state, "Bias": bias}
    outputs = {"Projection": projection, "Cell": cell, "BatchHidden": hidden, "BatchGate": gate}
    attrs = {name: given[name] for name in (*_LSTM_ATTRS, "proj_activation")}
    helper.append_op(
        type="lstmp",
        inputs=inputs | _initial("dynamic_lstmp", input, (h_0, proj_size), (c_0, width)),
        outputs={**outputs, "BatchCellPreAct": pre_act},
        attrs=attrs | {name: given[name] for name in ("cell_clip", "proj_clip") if given[name]},
    )
    return projection, cell


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """A GRU over sequences of different lengths.

    update, reset = gate(x_u + h W_u + b_u), gate(x_r + h W_r + b_r); candidate = act(x_c + (reset * h) W_c +
    b_c); the new h is (1 - update) * h + update * candidate, or with `origin_mode` update * h + (1 - update)
    * candidate.

    Parameters
    ----------
    input: a Variable [total rows, 3 * size] with sequences: the inputs of both gates and of the candidate,
        usually made by `fc`.
    size: the number of hidden units.
    param_attr: settings of the weight [size, 3 * size].
    bias_attr: settings of the bias [1, 3 * size].
    is_reverse: go through each sequence from its end.
    gate_activation: the activation of the gates: "sigmoid", "tanh", "relu" or "identity".
    candidate_activation: the activation of the candidate.
    h_0: the first hidden state [number of sequences, size]; zeros where it is None.
    origin_mode: the other formula above.

    Returns
    -------
    A Variable [total rows, size] with the same sequences: the hidden state after each row.

    >>> x = fluid.data("x", [None, 8], lod_level=1)
    >>> gates = fluid.layers.fc(x, size=3 * 16)
    >>> fluid.layers.dynamic_gru(gates, size=16).shape
    (-1, 16)
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "dynamic_gru")
    helper = LayerHelper("gru", input=input, size=size, param_attr=param_attr, bias_attr=bias_attr)
    dtype = helper.input_dtype()
    weight = helper.create_parameter(attr=helper.param_attr, shape=[size, 3 * size], dtype=dtype)
    bias = helper.create_parameter(attr=helper.bias_attr, shape=[1, 3 * size], dtype=dtype, is_bias=True)
    states = _initial("dynamic_gru", input, (h_0, size), (None, size))
    inputs = {"Input": input, "Weight": weight, "Bias": bias, **states}
    hidden, gate, reset, batch_hidden = temporaries(helper, 4, dtype)
    helper.append_op(
        type="gru",
        inputs=inputs,
        outputs={
            "Hidden": hidden,
            "BatchGate": gate,
            "BatchResetHiddenPrev": reset,
            "BatchHidden": batch_hidden,
        },
        attrs={
            "is_reverse": is_reverse,
            "gate_activation": gate_activation,
            "activation": candidate_activation,
            "origin_mode": origin_mode,
        },
    )
    return hidden


def lstm(
    input: Variable,
    init_h: Variable,
    init_c: Variable,
    max_len: int,
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    is_test: bool = False,
    name: str | None = None,
    default_initializer: Any = None,
    seed: int = -1,
) -> tuple[Variable, Variable, Variable]:
    """Stacked LSTM layers over `input` [time, batch, features]: states of the last layer, last states and
    last cells of all.

    `init_h` and `init_c` have shape [layers x directions, batch, hidden_size]. All weights are one parameter,
    in cuDNN's order (see `fluidlite.ops.neural.cudnn_lstm`). Between layers elements are dropped with
    `dropout_prob` and the rest is scaled up.
    """
    given = locals()
    for what in ("input", "init_h", "init_c"):
        check_variable_and_dtype(given[what], what, ["float32", "float64"], "lstm")
    helper = LayerHelper("cudnn_lstm", name=name)
    dtype, features, directions = input.dtype, input.shape[-1], 2 if is_bidirec else 1
    sizes = [features] + [directions * hidden_size] * (num_layers - 1)
    count = sum(directions * 4 * hidden_size * (size + hidden_size + 2) for size in sizes)
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[count], dtype=dtype, default_initializer=default_initializer
    )
    out, last_h, last_c = temporaries(helper, 3, dtype)
    cache = helper.create_variable(persistable=True, type=VarType.RAW, stop_gradient=True)
    helper.append_op(
        type="cudnn_lstm",
        inputs={"Input": input, "InitH": init_h, "InitC": init_c, "W": weight, "Cache": cache},
        outputs={"Out": out, "last_h": last_h, "last_c": last_c},
        attrs={"input_size": features, **{name: given[name] for name in _CUDNN_ATTRS}},
    )
    return out, last_h, last_c


_CUDNN_ATTRS = ("max_len", "is_bidirec", "hidden_size", "num_layers", "is_test", "dropout_prob", "seed")
_ACTIVATIONS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}  # how the op gru_unit numbers them


def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """One step of a GRU: the new hidden state [n, size / 3], the reset hidden state, and the gates.

    The op always uses tanh and sigmoid: fluid 1.8 looks the names up (KeyError where there is none) and then
    ignores them.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "gru_unit")
    check_variable_and_dtype(hidden, "hidden", ["float32", "float64"], "gru_unit")
    for name in (activation, gate_activation):
        _ACTIVATIONS[name]
    helper = LayerHelper(
        "gru_unit", input=input, hidden=hidden, size=size, param_attr=param_attr, bias_attr=bias_attr
    )
    dtype, width = helper.input_dtype(), size // 3
    weight = helper.create_parameter(attr=helper.param_attr, shape=[width, 3 * width], dtype=dtype)
    gate, reset, updated = temporaries(helper, 3, dtype)
    inputs: dict[str, Any] = {"Input": input, "HiddenPrev": hidden, "Weight": weight}
    if helper.bias_attr:
        inputs["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=[1, 3 * width], dtype=dtype, is_bias=True
        )
    helper.append_op(
        type="gru_unit",
        inputs=inputs,
        outputs={"Gate": gate, "ResetHiddenPrev": reset, "Hidden": updated},
        attrs={
            "activation": _ACTIVATIONS["tanh"],
            "gate_activation": _ACTIVATIONS["sigmoid"],
            "origin_mode": origin_mode,
        },
    )
    return updated, reset, gate


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """One step of an LSTM: the new hidden state and cell."""
    helper = LayerHelper("lstm_unit", name=name)
    for what, var in (("x_t", x_t), ("hidden_t_prev", hidden_t_prev), ("cell_t_prev", cell_t_prev)):
        check_variable_and_dtype(var, what, ["float32", "float64"], "lstm_unit")
        if len(var.shape) != 2:
            raise ValueError(f"Rank of {what} must be 2.")
    if x_t.shape[0] != hidden_t_prev.shape[0] or x_t.shape[0] != cell_t_prev.shape[0]:
        raise ValueError("The 1st dimensions of x_t, hidden_t_prev and cell_t_prev must be the same.")
    if hidden_t_prev.shape[1] != cell_t_prev.shape[1]:
        raise ValueError("The 2nd dimensions of hidden_t_prev and cell_t_prev must be the same.")
    width = cell_t_prev.shape[1]
    gates = fc(
        concat([x_t, hidden_t_prev], axis=1),
        size=4 * width,
        param_attr=param_attr,
        bias_attr=True if bias_attr is None else bias_attr,
    )
    cell, hidden = (helper.create_variable_for_type_inference(x_t.dtype) for _ in range(2))
    helper.append_op(
        type="lstm_unit",
        inputs={"X": gates, "C_prev": cell_t_prev},
        outputs={"C": cell, "H": hidden},
        attrs={"forget_bias": forget_bias},
    )
    return hidden, cell


def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable | None,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = 0,
    is_accumulated: bool = True,
    name: str | None = None,
    return_parent_idx: bool = False,
) -> Any:
    """One step of a beam search: the selected ids and scores (and which prefix each continues)."""
    check_variable_and_dtype(pre_ids, "pre_ids", ["int64"], "beam_search")
    check_variable_and_dtype(pre_scores, "pre_scores", ["float32", "float64"], "beam_search")
    check_type(ids, "ids", (Variable, type(None)), "beam_search")
    check_variable_and_dtype(scores, "scores", ["float32", "float64"], "beam_search")
    helper = LayerHelper("beam_search", name=name)
    inputs = {
        "pre_ids": pre_ids,
        "pre_scores": pre_scores,
        "scores": scores,
        **({"ids": ids} if ids is not None else {}),
    }
    scores_out = helper.create_variable_for_type_inference(dtype=pre_scores.dtype)
    ids_out = helper.create_variable_for_type_inference(dtype=pre_ids.dtype)
    parents = helper.create_variable_for_type_inference(dtype="int32")
    helper.append_op(
        type="beam_search",
        inputs=inputs,
        outputs={"selected_ids": ids_out, "selected_scores": scores_out, "parent_idx": parents},
        attrs={"level": level, "beam_size": beam_size, "end_id": end_id, "is_accumulated": is_accumulated},
    )
    return (ids_out, scores_out, parents) if return_parent_idx else (ids_out, scores_out)


def beam_search_decode(
    ids: Variable, scores: Variable, beam_size: int, end_id: int, name: str | None = None
) -> tuple[Variable, Variable]:
    """The sentences and their scores, from the arrays of ids and scores that the steps of a beam search
    wrote.
    """
    check_variable_and_dtype(ids, "ids", ["int64"], "beam_search_decode")
    check_variable_and_dtype(scores, "scores", ["float32"], "beam_search_decode")
    helper = LayerHelper("beam_search_decode", name=name)
    sentences = helper.create_variable_for_type_inference(dtype=ids.dtype)
    found = helper.create_variable_for_type_inference(dtype=scores.dtype)
    helper.append_op(
        type="beam_search_decode",
        inputs={"Ids": ids, "Scores": scores},
        outputs={"SentenceIds": sentences, "SentenceScores": found},
        attrs={"beam_size": beam_size, "end_id": end_id},
    )
    return sentences, found
