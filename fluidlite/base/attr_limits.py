"""Values that 1.8.5 lets attributes of ops have, where it does not take any value of their type.

Each limit was found by setting the attribute to numbers, words and lists and asking for the op's check. Ops
of 2.x have limits of their own, and are not held to these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Limit", "broken_limit"]


class Limit(NamedTuple):
    """A condition on an attribute, in words and as a test of its value."""

    wanted: str
    holds: Callable[[Any], bool]


def _at_least(low: float) -> Limit:
    return Limit(f"at least {low}", lambda value: value >= low)


def _above(low: float) -> Limit:
    return Limit(f"above {low}", lambda value: value > low)


def _between(low: float, high: float) -> Limit:
    # 0.001 comes as the 32-bit number next to it, which is a little larger
    return Limit(f"between {low} and {high}", lambda value: low <= value <= high * (1 + 1e-7))


def _one_of(*values: Any) -> Limit:
    return Limit(f"one of {sorted(values)}", lambda value: value in values)


def _positive(count: int | None = None) -> Limit:
    """A list of `count` numbers above 0; None for any count but 0."""
    wanted = "positive numbers" if count is None else f"{count} positive numbers"
    return Limit(
        wanted, lambda values: (len(values) == count or (count is None and values)) and min(values) > 0
    )


_ALL_ABOVE_ZERO = Limit("positive numbers, if any", lambda values: all(value > 0 for value in values))
_ACTIVATION = _one_of("identity", "relu", "sigmoid", "tanh")
_LSTM = dict.fromkeys(("gate_activation", "cell_activation", "candidate_activation"), _ACTIVATION)
_POOLING = {"pooling_type": _one_of("avg", "max")}
_SEQUENCE_SUMS = {"pooltype": _one_of("AVERAGE", "SQRT", "SUM")}
_SMALL_EPSILON = {"epsilon": _between(0.0, 0.001)}
_BITS = {"bit_length": _between(1, 16)}
_PRIOR_STEPS = {"step_w": _at_least(0.0), "step_h": _at_least(0.0), "variances": _positive(4)}
_CONTEXT = {"contextLength": _above(0), "contextStride": _above(0)}
_LAYOUT = Limit(
    "'NCHW', 'NHWC' or 'AnyLayout'",
    lambda value: value.upper() in ("NCHW", "NHWC", "ANYLAYOUT", "MKLDNNLAYOUT"),
)
_LEVEL = {"level": _at_least(0)}


def _alike(types: str, limits: Mapping[str, Limit]) -> dict[str, Mapping[str, Limit]]:
    return dict.fromkeys(types.split(), limits)


_LIMITS: dict[str, Mapping[str, Limit]] = {
    **_alike(
        "elementwise_add elementwise_sub elementwise_mul elementwise_div elementwise_max elementwise_min "
        "elementwise_pow elementwise_mod elementwise_floordiv equal not_equal less_than less_equal "
        "greater_than greater_equal equal_reduce cumsum",
        {"axis": _at_least(-1)},
    ),
    **_alike("batch_norm inplace_abn instance_norm data_norm", _SMALL_EPSILON),
    **_alike("lstm fusion_lstm attention_lstm fused_embedding_fc_lstm", _LSTM),
    **_alike(
        "fake_quantize_abs_max fake_channel_wise_quantize_abs_max fake_quantize_range_abs_max "
        "fake_quantize_moving_average_abs_max fake_quantize_dequantize_moving_average_abs_max",
        _BITS,
    ),
    **_alike("pool2d pool3d spp", _POOLING),
    **_alike("fusion_seqpool_concat fusion_seqpool_cvm_concat", {**_SEQUENCE_SUMS, "axis": _one_of(1)}),
    **_alike("fusion_seqconv_eltadd_relu sequence_conv", _CONTEXT),
    **_alike("lod_rank_table merge_lod_tensor merge_lod_tensor_infer split_lod_tensor", _LEVEL),
    "add_position_encoding": {"alpha": _at_least(0.0), "beta": _at_least(0.0)},
    "anchor_generator": {"anchor_sizes": _positive(), "stride": _positive(2), "variances": _positive(4)},
    "affine_channel": {"data_layout": _LAYOUT},
    "assign_value": {"dtype": _one_of(0, 2, 3, 5)},
    "bipartite_match": {"match_type": _one_of("bipartite", "per_prediction")},
    "box_coder": {"axis": _one_of(0, 1), "code_type": _one_of("decode_center_size", "encode_center_size")},
    "density_prior_box": {
        **_PRIOR_STEPS,
        **dict.fromkeys(("densities", "fixed_ratios", "fixed_sizes"), _ALL_ABOVE_ZERO),
    },
    "clip_by_norm": {"max_norm": _above(0.0)},
    "detection_map": {"ap_type": _one_of("11point", "integral")},
    "dropout": {
        "dropout_prob": _between(0.0, 1.0),
        "dropout_implementation": _one_of("downgrade_in_infer", "upscale_in_train"),
    },
    "fc": {"in_num_col_dims": _at_least(1)},
    "fused_elemwise_activation": {"functor_list": Limit("two", lambda names: len(names) == 2)},
    "fusion_seqexpand_concat_fc": {"fc_activation": _ACTIVATION},
    "get_places": {"device_type": _one_of("AUTO", "CPU", "CUDA")},
    "group_norm": {"epsilon": _between(0.0, 1.0), "groups": _above(0)},
    "gru_unit": dict.fromkeys(("activation", "gate_activation"), _one_of(0, 1, 2, 3)),
    "layer_norm": {**_SMALL_EPSILON, "begin_norm_axis": _above(0)},
    "lrn": {"n": _above(0), **dict.fromkeys(("alpha", "beta", "k"), _above(0.0))},
    "lstmp": {**_LSTM, "proj_activation": _ACTIVATION},
    "mine_hard_examples": {"mining_type": _one_of("hard_example", "max_negative")},
    "mul": {"x_num_col_dims": _at_least(1), "y_num_col_dims": _at_least(1)},
    "pixel_shuffle": {"upscale_factor": _at_least(1)},
    "print": {"print_phase": _one_of("BACKWARD", "BOTH", "FORWARD")},
    "prior_box": {**_PRIOR_STEPS, "min_sizes": _positive()},
    "pyramid_hash": {
        **dict.fromkeys(("black_list_len", "is_training", "num_emb", "rand_len", "seed"), _at_least(0)),
        **dict.fromkeys(("space_len", "white_list_len"), _at_least(0)),
        **dict.fromkeys(("drop_out_percent", "lr"), _at_least(0.0)),
        "pyramid_layer": _at_least(2),
    },
    "sequence_enumerate": {"win_size": _at_least(2)},
    "sequence_mask": {"maxlen": Limit("negative or positive", lambda value: value != 0)},
    "sequence_pool": {"pooltype": _one_of("AVERAGE", "FIRST", "LAST", "MAX", "SQRT", "SUM")},
    "shuffle_channel": {"group": _at_least(1)},
    "space_to_depth": {"blocksize": _above(1)},
    "tree_conv": {"max_depth": _above(1)},
    "unpool": {"unpooling_type": _one_of("max")},
    "unstack": {"num": _above(0)},
}


def broken_limit(op_type: str, attrs: Mapping[str, Any]) -> str | None:
    """A sentence about the first attribute that has a value which its op does not take; None without one."""
    for name, limit in _LIMITS.get(op_type, {}).items():
        if attrs.get(name) is not None and not limit.holds(attrs[name]):
            return f"attribute {name!r} is {attrs[name]!r}, but must be {limit.wanted}"
    return None
