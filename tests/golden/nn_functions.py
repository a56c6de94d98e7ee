"""Functions of `paddle.nn.functional`: the same calls run under PaddlePaddle 2.6.2, which is recorded, and
here.

cd tests && python -m golden.nn_functions        (with the Python that has 2.6.2)
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any

import numpy as np

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nn_functions.npz")


class Inputs:
    """Makes the variables of a case, and numbers for them."""

    def __init__(self, paddle: Any) -> None:
        self.static, self.feeds, self.floats = paddle.static, {}, []
        self.rng = np.random.RandomState(7)

    def _add(self, array: np.ndarray) -> Any:
        name = f"v{len(self.feeds)}"
        self.feeds[name] = array
        return self.static.data(name, list(array.shape), str(array.dtype))

    def __call__(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Any:
        """Real numbers between `low` and `high`."""
        var = self._add(self.rng.uniform(low, high, shape).astype("float32"))
        var.stop_gradient = False
        self.floats.append(var)
        return var

    def of(self, *shape: int, below: int, low: int = 0, dtype: str = "int64") -> Any:
        """Whole numbers below `below`."""
        return self._add(self.rng.randint(low, below, shape).astype(dtype))

    def these(self, values: Any, dtype: str) -> Any:
        """The numbers given."""
        return self._add(np.array(values, dtype))


ONE_OPERAND = (
    "relu",
    "relu_",
    "relu6",
    "elu",
    "elu_",
    "selu",
    "sigmoid",
    "log_sigmoid",
    "softsign",
    "tanhshrink",
    "silu",
    "swish",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "softmax",
    "softmax_",
    "log_softmax",
    "softplus",
    "softshrink",
    "thresholded_relu",
)


def _of_one(name: str, F: Any, v: Inputs) -> Any:
    return getattr(F, name)(v(2, 3, low=-4, high=4))


CASES: dict[str, Any] = {
    # activations
    **{name: functools.partial(_of_one, name) for name in ONE_OPERAND},
    "gelu_tanh": lambda F, v: F.gelu(v(2, 3), approximate=True),
    "elu_alpha": lambda F, v: F.elu(v(2, 3), 0.3),
    "softmax_axis": lambda F, v: F.softmax(v(2, 3, 4), axis=1),
    "softmax_double": lambda F, v: F.softmax(v(2, 3), dtype="float64"),
    "log_softmax_axis": lambda F, v: F.log_softmax(v(2, 3), axis=0),
    "softplus_beta": lambda F, v: F.softplus(v(2, 3), beta=2, threshold=1),
    "hardtanh_range": lambda F, v: F.hardtanh(v(2, 3), -0.5, 0.2),
    "maxout": lambda F, v: F.maxout(v(2, 4, 3, 3), 2),
    "prelu_channels": lambda F, v: F.prelu(v(2, 3, 2, 2), v(3)),
    "prelu_one": lambda F, v: F.prelu(v(2, 3), v(1)),
    # pools
    "avg_pool1d": lambda F, v: F.avg_pool1d(v(2, 3, 8), 2),
    "avg_pool1d_padded": lambda F, v: F.avg_pool1d(v(2, 3, 8), 3, 2, 1, False),
    "avg_pool2d": lambda F, v: F.avg_pool2d(v(2, 3, 6, 6), 2),
    "avg_pool2d_padded": lambda F, v: F.avg_pool2d(v(2, 3, 6, 5), [3, 2], 2, [1, 0], True),
    "avg_pool2d_divisor": lambda F, v: F.avg_pool2d(v(2, 3, 6, 6), 2, divisor_override=3),
    "avg_pool2d_same": lambda F, v: F.avg_pool2d(v(2, 3, 5, 5), 2, 2, "SAME"),
    "avg_pool2d_last": lambda F, v: F.avg_pool2d(v(2, 4, 4, 3), 2, data_format="NHWC"),
    "avg_pool3d": lambda F, v: F.avg_pool3d(v(1, 2, 4, 4, 4), 2),
    "max_pool1d": lambda F, v: F.max_pool1d(v(2, 3, 8), 2),
    "max_pool1d_places": lambda F, v: F.max_pool1d(v(2, 3, 8), 2, return_mask=True),
    "max_pool2d": lambda F, v: F.max_pool2d(v(2, 3, 6, 6), 3, 2, 1),
    "max_pool2d_places": lambda F, v: F.max_pool2d(v(2, 3, 6, 6), 2, return_mask=True),
    "max_pool3d": lambda F, v: F.max_pool3d(v(1, 2, 4, 4, 4), 2),
    "max_pool3d_places": lambda F, v: F.max_pool3d(v(1, 2, 4, 4, 4), 2, return_mask=True),
    "adaptive_avg_pool1d": lambda F, v: F.adaptive_avg_pool1d(v(2, 3, 8), 3),
    "adaptive_avg_pool2d": lambda F, v: F.adaptive_avg_pool2d(v(2, 3, 7, 6), (3, None)),
    "adaptive_avg_pool3d": lambda F, v: F.adaptive_avg_pool3d(v(1, 2, 4, 5, 6), 2),
    "adaptive_max_pool1d": lambda F, v: F.adaptive_max_pool1d(v(2, 3, 8), 3),
    "adaptive_max_pool2d": lambda F, v: F.adaptive_max_pool2d(v(2, 3, 7, 6), 3, True),
    "adaptive_max_pool3d": lambda F, v: F.adaptive_max_pool3d(v(1, 2, 4, 5, 6), 2),
    # convolutions
    "conv1d": lambda F, v: F.conv1d(v(2, 3, 8), v(4, 3, 3), v(4), 2, 1),
    "conv1d_last": lambda F, v: F.conv1d(v(2, 8, 3), v(4, 3, 3), v(4), padding=[1, 2], data_format="NLC"),
    "conv2d": lambda F, v: F.conv2d(v(2, 3, 6, 6), v(4, 3, 3, 3), v(4), 2, 1),
    "conv2d_groups": lambda F, v: F.conv2d(v(2, 4, 5, 5), v(6, 2, 3, 3), groups=2, dilation=2),
    "conv2d_depthwise": lambda F, v: F.conv2d(v(2, 3, 5, 5), v(6, 1, 3, 3), v(6), groups=3),
    "conv2d_same": lambda F, v: F.conv2d(v(2, 3, 5, 5), v(4, 3, 2, 2), padding="same"),
    "conv2d_pairs": lambda F, v: F.conv2d(
        v(2, 3, 5, 5), v(4, 3, 2, 2), padding=[[0, 0], [0, 0], [1, 2], [0, 1]]
    ),
    "conv2d_last": lambda F, v: F.conv2d(v(2, 5, 5, 3), v(4, 3, 3, 3), v(4), data_format="NHWC"),
    "conv3d": lambda F, v: F.conv3d(v(1, 2, 4, 4, 4), v(3, 2, 2, 2, 2), v(3)),
    "conv1d_transpose": lambda F, v: F.conv1d_transpose(v(2, 3, 5), v(3, 2, 3), v(2), 2, 1, 1),
    "conv2d_transpose": lambda F, v: F.conv2d_transpose(v(2, 3, 4, 4), v(3, 2, 3, 3), v(2), 2, 1),
    "conv2d_transpose_beyond": lambda F, v: F.conv2d_transpose(
        v(2, 3, 4, 4), v(3, 2, 3, 3), stride=2, output_padding=1
    ),
    "conv2d_transpose_size": lambda F, v: F.conv2d_transpose(
        v(2, 3, 4, 4), v(3, 2, 3, 3), stride=2, output_size=[10, 9]
    ),
    "conv3d_transpose": lambda F, v: F.conv3d_transpose(v(1, 2, 3, 3, 3), v(2, 3, 2, 2, 2), v(3)),
    # normalisations
    "batch_norm": lambda F, v: F.batch_norm(v(2, 3, 4, 4), v(3), v(3, low=0.5), v(3), v(3)),
    "batch_norm_train": lambda F, v: F.batch_norm(
        v(4, 3), v(3), v(3, low=0.5), v(3), v(3), training=True, momentum=0.7
    ),
    "layer_norm": lambda F, v: F.layer_norm(v(2, 3, 4), [3, 4], v(12), v(12)),
    "layer_norm_plain": lambda F, v: F.layer_norm(v(2, 3), 3),
    "instance_norm": lambda F, v: F.instance_norm(v(2, 3, 4, 4), weight=v(3), bias=v(3)),
    "local_response_norm": lambda F, v: F.local_response_norm(v(2, 5, 4, 4), 3, alpha=0.1),
    "local_response_norm_even": lambda F, v: F.local_response_norm(v(2, 5, 4), 4, data_format="NCL"),
    "local_response_norm_last": lambda F, v: F.local_response_norm(v(2, 3, 3, 5), 3, data_format="NHWC"),
    "normalize": lambda F, v: F.normalize(v(2, 3)),
    "normalize_3": lambda F, v: F.normalize(v(2, 3, 4), 3, axis=-1),
    # losses
    "mse_loss": lambda F, v: F.mse_loss(v(2, 3), v(2, 3)),
    "mse_loss_sum": lambda F, v: F.mse_loss(v(2, 3), v(2, 3), "sum"),
    "l1_loss": lambda F, v: F.l1_loss(v(2, 3), v(2, 3), "none"),
    "smooth_l1_loss": lambda F, v: F.smooth_l1_loss(v(2, 3, high=4), v(2, 3), delta=0.7),
    "log_loss": lambda F, v: F.log_loss(v(4, 1, low=0.1, high=0.9), v(4, 1, low=0, high=1)),
    "kl_div": lambda F, v: F.kl_div(v(2, 3), v(2, 3, low=0.1)),
    "kl_div_batch": lambda F, v: F.kl_div(v(2, 3), v(2, 3, low=0.1), "batchmean"),
    "margin_ranking_loss": lambda F, v: F.margin_ranking_loss(v(4), v(4), v.these([1, -1, 1, -1], "float32")),
    "margin_ranking_loss_sum": lambda F, v: F.margin_ranking_loss(
        v(4), v(4), v.these([1, -1, 1, -1], "float32"), 0.3, "sum"
    ),
    "square_error_cost": lambda F, v: F.square_error_cost(v(2, 3), v(2, 3)),
    "binary_cross_entropy": lambda F, v: F.binary_cross_entropy(
        v(2, 3, low=0.1, high=0.9), v(2, 3, low=0), v(2, 3)
    ),
    "with_logits": lambda F, v: F.binary_cross_entropy_with_logits(v(2, 3), v(2, 3, low=0)),
    # without gradients: those of 2.6.2 leave pos_weight out of the label's part
    "with_logits_weighted": lambda F, v: F.binary_cross_entropy_with_logits(
        v.these([[0.5, -1, 2], [1, 0.2, -0.3]], "float32"),
        v.of(2, 3, below=2, dtype="float32"),
        v.these([[1, 2, 3], [3, 2, 1]], "float32"),
        "sum",
        v.these([0.5, 2, 1], "float32"),
    ),
    "sigmoid_focal_loss": lambda F, v: F.sigmoid_focal_loss(
        v(2, 3), v.these([[0, 1, 0], [1, 0, 0]], "float32")
    ),
    "sigmoid_focal_loss_mean": lambda F, v: F.sigmoid_focal_loss(
        v(2, 3), v.these([[0, 1, 0], [1, 0, 0]], "float32"), v.these([2.0], "float32"), 0.3, 1.5, "mean"
    ),
    "cross_entropy": lambda F, v: F.cross_entropy(v(4, 3), v.of(4, 1, below=3)),
    "cross_entropy_flat": lambda F, v: F.cross_entropy(v(4, 3), v.of(4, below=3), reduction="none"),
    "cross_entropy_ignored": lambda F, v: F.cross_entropy(
        v(4, 3), v.these([0, 2, 1, 2], "int64"), ignore_index=2
    ),
    "cross_entropy_weighted": lambda F, v: F.cross_entropy(v(4, 3), v.of(4, below=3), v(3, low=0.2)),
    "cross_entropy_soft": lambda F, v: F.cross_entropy(v(4, 3), v(4, 3, low=0), soft_label=True),
    "cross_entropy_axis": lambda F, v: F.cross_entropy(v(2, 3, 4), v.of(2, 4, below=3), axis=1),
    "cross_entropy_smoothed": lambda F, v: F.cross_entropy(v(4, 3), v.of(4, below=3), label_smoothing=0.2),
    "cross_entropy_sum": lambda F, v: F.cross_entropy(v(4, 3), v.of(4, below=3), reduction="sum"),
    "softmax_with_cross_entropy": lambda F, v: F.softmax_with_cross_entropy(
        v(4, 3), v.of(4, 1, below=3), return_softmax=True
    ),
    "nll_loss": lambda F, v: F.nll_loss(v(4, 3), v.of(4, below=3)),
    "nll_loss_weighted": lambda F, v: F.nll_loss(v(4, 3), v.of(4, below=3), v(3, low=0.2), reduction="sum"),
    "nll_loss_places": lambda F, v: F.nll_loss(v(2, 3, 4), v.of(2, 4, below=3), reduction="none"),
    "npair_loss": lambda F, v: F.npair_loss(v(4, 3), v(4, 3), v.these([0, 1, 1, 2], "float32")),
    "dice_loss": lambda F, v: F.dice_loss(v(2, 3, 4, low=0), v.of(2, 3, 1, below=4)),
    "ctc_loss": lambda F, v: F.ctc_loss(
        v(5, 2, 4),
        v.of(2, 2, below=4, low=1, dtype="int32"),
        v.these([5, 4], "int64"),
        v.these([2, 1], "int64"),
    ),
    "hsigmoid_loss": lambda F, v: F.hsigmoid_loss(v(3, 4), v.of(3, 1, below=5), 5, v(4, 4), v(4, 1)),
    # the rest
    "linear": lambda F, v: F.linear(v(2, 3), v(3, 4), v(4)),
    "bilinear": lambda F, v: F.bilinear(v(2, 3), v(2, 4), v(5, 3, 4), v(1, 5)),
    "embedding": lambda F, v: F.embedding(v.of(2, 3, below=5), v(5, 4), padding_idx=-2),
    "one_hot": lambda F, v: F.one_hot(v.of(4, below=5), 5),
    "label_smooth": lambda F, v: F.label_smooth(v(2, 3), epsilon=0.2),
    "cosine_similarity": lambda F, v: F.cosine_similarity(v(2, 3), v(2, 3), axis=1),
    "dropout_off": lambda F, v: F.dropout(v(2, 3), 0.4, training=False, mode="downscale_in_infer"),
    "dropout2d_off": lambda F, v: F.dropout2d(v(2, 3, 2, 2), 0.4, training=False),
    "dropout3d_off": lambda F, v: F.dropout3d(v(1, 2, 2, 2, 2), 0.4, training=False),
    "alpha_dropout_off": lambda F, v: F.alpha_dropout(v(2, 3), 0.4, training=False),
    "pad": lambda F, v: F.pad(v(2, 3, 4, 4), [1, 2, 0, 1], value=0.5),
    "pad_reflect": lambda F, v: F.pad(v(2, 3, 5), [1, 2], "reflect", data_format="NCL"),
    "pad_replicate": lambda F, v: F.pad(
        v(1, 2, 3, 3, 3), [1, 0, 0, 1, 1, 1], "replicate", data_format="NCDHW"
    ),
    "pad_circular": lambda F, v: F.pad(v(2, 3, 3, 2), [1, 1, 0, 1], "circular", data_format="NHWC"),
    "pad_all": lambda F, v: F.pad(v(2, 3), [1, 0, 0, 2]),
    "unfold": lambda F, v: F.unfold(v(2, 3, 5, 5), [2, 3], 2, 1),
    "interpolate_nearest": lambda F, v: F.interpolate(v(1, 2, 3, 3), [5, 4]),
    "interpolate_bilinear": lambda F, v: F.interpolate(v(1, 2, 3, 3), scale_factor=2, mode="bilinear"),
    "interpolate_corners": lambda F, v: F.interpolate(
        v(1, 2, 3, 3), [5, 4], mode="bilinear", align_corners=True
    ),
    "interpolate_mode_1": lambda F, v: F.interpolate(v(1, 2, 3, 3), [5, 4], mode="bilinear", align_mode=1),
    "interpolate_bicubic": lambda F, v: F.interpolate(v(1, 2, 4, 4), [6, 7], mode="bicubic"),
    "interpolate_linear": lambda F, v: F.interpolate(v(1, 2, 4), [7], mode="linear", data_format="NCW"),
    "interpolate_trilinear": lambda F, v: F.interpolate(
        v(1, 1, 2, 3, 3), [3, 4, 4], mode="trilinear", data_format="NCDHW"
    ),
    "interpolate_area": lambda F, v: F.interpolate(v(1, 2, 6, 6), [3, 2], mode="area"),
    "upsample": lambda F, v: F.upsample(v(1, 2, 3, 3), scale_factor=[2, 3]),
    "affine_grid": lambda F, v: F.affine_grid(v(2, 2, 3), [2, 3, 4, 5]),
    "grid_sample": lambda F, v: F.grid_sample(v(2, 3, 4, 4), v(2, 5, 5, 2)),
    "grid_sample_border": lambda F, v: F.grid_sample(
        v(2, 3, 4, 4), v(2, 5, 5, 2, low=-2, high=2), "nearest", "border", False
    ),
    "grid_sample_reflection": lambda F, v: F.grid_sample(
        v(2, 3, 4, 4), v(2, 5, 5, 2, low=-3, high=3), padding_mode="reflection"
    ),
    "grid_sample_reflected_borders": lambda F, v: F.grid_sample(
        v(2, 3, 4, 5), v(2, 5, 5, 2, low=-3, high=3), padding_mode="reflection", align_corners=False
    ),
    "affine_grid_borders": lambda F, v: F.affine_grid(v(2, 2, 3), [2, 3, 4, 5], align_corners=False),
    "cross_entropy_of_shares": lambda F, v: F.cross_entropy(
        v(4, 3, low=0.2, high=0.6), v.of(4, 1, below=3), use_softmax=False
    ),
    "cross_entropy_of_shares_soft": lambda F, v: F.cross_entropy(
        v(4, 3, low=0.2, high=0.6), v(4, 3, low=0.1, high=1), soft_label=True, use_softmax=False
    ),
    "avg_pool2d_beyond": lambda F, v: F.avg_pool2d(v(1, 2, 7, 7), 2, ceil_mode=True, exclusive=False),
    "avg_pool2d_beyond_padding": lambda F, v: F.avg_pool2d(
        v(1, 2, 7, 7), 3, stride=3, padding=[1, 2], ceil_mode=True, exclusive=False
    ),
    "avg_pool3d_beyond": lambda F, v: F.avg_pool3d(v(1, 1, 5, 5, 5), 2, ceil_mode=True, exclusive=False),
    "max_pool2d_places_beyond": lambda F, v: F.max_pool2d(
        v(1, 2, 7, 7), 3, stride=2, ceil_mode=True, return_mask=True
    ),
    "prelu_channels_last": lambda F, v: F.prelu(v(1, 2, 2, 3), v(3), data_format="NHWC"),
    "pixel_shuffle_channels_last": lambda F, v: F.pixel_shuffle(v(1, 2, 3, 8), 2, "NHWC"),
    "pad_by_variable": lambda F, v: F.pad(v(1, 2, 3, 4), v.these([1, 2, 0, 1], "int32"), "reflect"),
    "pixel_shuffle": lambda F, v: F.pixel_shuffle(v(2, 4, 3, 3), 2),
    "temporal_shift": lambda F, v: F.temporal_shift(v(4, 4, 2, 2), 2),
    "gather_tree": lambda F, v: F.gather_tree(v.of(3, 2, 2, below=9), v.of(3, 2, 2, below=2)),
    "diag_embed": lambda F, v: F.diag_embed(v(2, 3), 1),
}


def run(paddle: Any, name: str) -> tuple[list[np.ndarray], list[str]]:
    """The outputs, the gradients of the sum of squares of the first by the real inputs, and the ops."""
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        inputs = Inputs(paddle)
        found = CASES[name](paddle.nn.functional, inputs)
        outs = list(found) if isinstance(found, (list, tuple)) else [found]
        ops = [op.type for op in main.global_block().ops]
        grads = []
        if inputs.floats and not outs[0].stop_gradient:
            # squares: the plain sum of a softmax and its kin has no gradient
            real = paddle.cast(outs[0], "float32")
            grads = paddle.static.gradients([paddle.sum(real * real)], inputs.floats)
        kept = [var for var in grads if var is not None]
        exe = paddle.static.Executor(paddle.CPUPlace())
        values = exe.run(main, feed=inputs.feeds, fetch_list=[*outs, *kept])
    return [np.asarray(value) for value in values], ops


def record() -> None:
    import paddle

    paddle.enable_static()
    arrays: dict[str, np.ndarray] = {}
    for name in CASES:
        values, ops = run(paddle, name)
        arrays[f"{name}/ops"] = np.array(" ".join(ops))
        arrays.update({f"{name}/{place}": value for place, value in enumerate(values)})
    # one array for all of a dtype: an entry of an archive costs 300 bytes
    index = {key: [str(array.dtype), list(array.shape)] for key, array in arrays.items() if "/ops" not in key}
    packed = {
        kind: np.concatenate([arrays[key].reshape(-1) for key, (dtype, _) in index.items() if dtype == kind])
        for kind in {dtype for dtype, _ in index.values()}
    }
    ops = {name: str(arrays[f"{name}/ops"]) for name in CASES}
    np.savez_compressed(PATH, meta=json.dumps({"index": index, "ops": ops}), **packed)


if __name__ == "__main__":
    record()
