"""Layers of `paddle.nn`: the same layers run under PaddlePaddle 2.6.2, whose results are recorded, and here.

cd tests && python -m golden.nn_layers        (with the Python that has 2.6.2)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from golden.nn_functions import Inputs

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nn_layers.npz")


def _in_eval(layer: Any) -> Any:
    layer.eval()
    return layer


# name -> function of (nn, inputs), giving a layer and what it is called with
CASES: dict[str, Callable[[Any, Inputs], tuple[Any, ...]]] = {
    **{
        name: lambda nn, v, name=name: (getattr(nn, name)(), v(2, 3, low=-4, high=4))
        for name in [
            "ReLU",
            "ReLU6",
            "ELU",
            "SELU",
            "Sigmoid",
            "LogSigmoid",
            "Softsign",
            "Tanh",
            "Tanhshrink",
            "Silu",
            "Swish",
            "GELU",
            "Hardshrink",
            "Hardsigmoid",
            "Hardswish",
            "Hardtanh",
            "LeakyReLU",
            "Softmax",
            "LogSoftmax",
            "Softplus",
            "Softshrink",
            "ThresholdedReLU",
            "PReLU",
        ]
    },
    "Maxout": lambda nn, v: (nn.Maxout(2), v(2, 4, 3, 1)),
    "PReLU_channels": lambda nn, v: (nn.PReLU(3, 0.1), v(2, 3, 2, 2)),
    # products and tables
    "Linear": lambda nn, v: (nn.Linear(3, 4), v(2, 3)),
    "Linear_no_bias": lambda nn, v: (nn.Linear(3, 4, bias_attr=False), v(2, 5, 3)),
    "Bilinear": lambda nn, v: (nn.Bilinear(2, 3, 4), v(5, 2), v(5, 3)),
    "Embedding": lambda nn, v: (nn.Embedding(6, 3, padding_idx=2), v.of(2, 4, below=6)),
    "Flatten": lambda nn, v: (nn.Flatten(), v(2, 3, 4)),
    "Dropout_eval": lambda nn, v: (_in_eval(nn.Dropout(0.3)), v(2, 3)),
    "Dropout_downscaled": lambda nn, v: (_in_eval(nn.Dropout(0.3, mode="downscale_in_infer")), v(2, 3)),
    "Dropout2D_eval": lambda nn, v: (_in_eval(nn.Dropout2D()), v(2, 3, 2, 2)),
    "CosineSimilarity": lambda nn, v: (nn.CosineSimilarity(), v(2, 3), v(2, 3)),
    "PairwiseDistance": lambda nn, v: (nn.PairwiseDistance(), v(2, 3), v(2, 3)),
    "PixelShuffle": lambda nn, v: (nn.PixelShuffle(2), v(1, 4, 2, 2)),
    "Pad1D": lambda nn, v: (nn.Pad1D(1, "replicate"), v(1, 2, 3)),
    "Pad2D": lambda nn, v: (nn.Pad2D([1, 0, 1, 2], value=3.0), v(1, 2, 3, 3)),
    "Pad3D": lambda nn, v: (nn.Pad3D(1), v(1, 1, 2, 2, 2)),
    "Upsample": lambda nn, v: (nn.Upsample(scale_factor=2), v(1, 2, 3, 3)),
    "UpsamplingNearest2D": lambda nn, v: (nn.UpsamplingNearest2D([4, 5]), v(1, 1, 3, 3)),
    "UpsamplingBilinear2D": lambda nn, v: (nn.UpsamplingBilinear2D([4, 5]), v(1, 1, 3, 3)),
    # convolutions and pools
    "Conv1D": lambda nn, v: (nn.Conv1D(4, 6, 3, groups=2), v(2, 4, 6)),
    "Conv2D": lambda nn, v: (nn.Conv2D(3, 4, 3, stride=2, padding=1), v(2, 3, 6, 6)),
    "Conv2D_circular": lambda nn, v: (
        nn.Conv2D(2, 3, 3, padding=1, padding_mode="circular", bias_attr=False),
        v(1, 2, 4, 5),
    ),
    "Conv3D": lambda nn, v: (nn.Conv3D(2, 3, 2), v(1, 2, 3, 3, 3)),
    "Conv1DTranspose": lambda nn, v: (nn.Conv1DTranspose(3, 2, 3, stride=2), v(2, 3, 4)),
    "Conv2DTranspose": lambda nn, v: (nn.Conv2DTranspose(4, 6, 3, groups=2), v(1, 4, 3, 3)),
    "Conv2DTranspose_size": lambda nn, v: (nn.Conv2DTranspose(2, 3, 3, stride=2), v(1, 2, 3, 3), [8, 7]),
    "Conv3DTranspose": lambda nn, v: (nn.Conv3DTranspose(2, 3, 2), v(1, 2, 2, 2, 2)),
    **{
        f"{kind}Pool{dims}D": lambda nn, v, kind=kind, dims=dims: (
            getattr(nn, f"{kind}Pool{dims}D")(2),
            v(1, 2, *[4] * dims),
        )
        for kind in ("Avg", "Max", "AdaptiveAvg", "AdaptiveMax")
        for dims in (1, 2, 3)
    },
    # normalisations
    "BatchNorm": lambda nn, v: (nn.BatchNorm(3, act="relu"), v(4, 3, 2, 2)),
    "BatchNorm1D": lambda nn, v: (nn.BatchNorm1D(3), v(5, 3)),
    "BatchNorm2D": lambda nn, v: (nn.BatchNorm2D(3, momentum=0.7), v(2, 3, 3, 3)),
    "BatchNorm2D_eval": lambda nn, v: (_in_eval(nn.BatchNorm2D(3)), v(2, 3, 3, 3)),
    "BatchNorm2D_bare": lambda nn, v: (nn.BatchNorm2D(3, weight_attr=False, bias_attr=False), v(2, 3, 3, 3)),
    "BatchNorm3D": lambda nn, v: (nn.BatchNorm3D(2), v(2, 2, 2, 2, 2)),
    "LayerNorm": lambda nn, v: (nn.LayerNorm([3, 4]), v(2, 3, 4)),
    "GroupNorm": lambda nn, v: (nn.GroupNorm(2, 4), v(2, 4, 3, 3)),
    "InstanceNorm1D": lambda nn, v: (nn.InstanceNorm1D(3), v(2, 3, 4)),
    "InstanceNorm2D": lambda nn, v: (nn.InstanceNorm2D(3), v(2, 3, 3, 3)),
    "InstanceNorm3D": lambda nn, v: (nn.InstanceNorm3D(2), v(1, 2, 2, 2, 2)),
    "LocalResponseNorm": lambda nn, v: (nn.LocalResponseNorm(3), v(1, 4, 2, 2)),
    "SpectralNorm": lambda nn, v: (nn.SpectralNorm([3, 4], power_iters=2), v(3, 4)),
    # losses
    "CrossEntropyLoss": lambda nn, v: (nn.CrossEntropyLoss(), v(4, 5), v.of(4, below=5)),
    "NLLLoss": lambda nn, v: (nn.NLLLoss(), v(4, 5), v.of(4, below=5)),
    "BCELoss": lambda nn, v: (nn.BCELoss(), v(2, 3, low=0.1, high=0.9), v(2, 3, low=0)),
    "BCEWithLogitsLoss": lambda nn, v: (nn.BCEWithLogitsLoss(), v(2, 3), v(2, 3, low=0)),
    "MSELoss": lambda nn, v: (nn.MSELoss(), v(2, 3), v(2, 3)),
    "L1Loss": lambda nn, v: (nn.L1Loss("sum"), v(2, 3), v(2, 3)),
    "SmoothL1Loss": lambda nn, v: (nn.SmoothL1Loss(), v(2, 3), v(2, 3)),
    "KLDivLoss": lambda nn, v: (nn.KLDivLoss("batchmean"), v(2, 3), v(2, 3, low=0.1)),
    "MarginRankingLoss": lambda nn, v: (
        nn.MarginRankingLoss(0.2),
        v(4),
        v(4),
        v.these([1, -1, 1, -1], "float32"),
    ),
    "CELU": lambda nn, v: (nn.CELU(0.5), v(2, 3)),
    "GLU": lambda nn, v: (nn.GLU(1), v(2, 4)),
    "Mish": lambda nn, v: (nn.Mish(), v(2, 3, low=-4, high=4)),
    "RReLU": lambda nn, v: (_in_eval(nn.RReLU()), v(2, 3)),
    "Softmax2D": lambda nn, v: (nn.Softmax2D(), v(2, 3, 2, 2)),
    "PixelUnshuffle": lambda nn, v: (nn.PixelUnshuffle(2), v(1, 2, 4, 6)),
    "ChannelShuffle": lambda nn, v: (nn.ChannelShuffle(3), v(1, 6, 2, 2)),
    "Fold": lambda nn, v: (nn.Fold([4, 5], [2, 3], 1, [1, 0], 1), v(2, 12, 15)),
    "ZeroPad2D": lambda nn, v: (nn.ZeroPad2D([1, 0, 2, 1]), v(1, 2, 3, 4)),
    "Unflatten": lambda nn, v: (nn.Unflatten(1, [2, -1]), v(2, 6)),
    "MaxUnPool1D": lambda nn, v: (nn.MaxUnPool1D(2), v(1, 2, 3), v.these([[[0, 3, 4], [1, 2, 5]]], "int32")),
    "MaxUnPool2D": lambda nn, v: (
        nn.MaxUnPool2D([1, 2], output_size=[1, 7]),
        v(1, 1, 1, 3),
        v.these([[[[0, 3, 6]]]], "int32"),
    ),
    "MaxUnPool3D": lambda nn, v: (nn.MaxUnPool3D(2), v(1, 1, 1, 1, 2), v.these([[[[[0, 11]]]]], "int32")),
    "CosineEmbeddingLoss": lambda nn, v: (
        nn.CosineEmbeddingLoss(0.2),
        v(3, 4),
        v(3, 4),
        v.these([1, -1, 1], "int64"),
    ),
    "GaussianNLLLoss": lambda nn, v: (
        nn.GaussianNLLLoss(True, reduction="sum"),
        v(2, 3),
        v(2, 3),
        v(2, 3, low=0.2),
    ),
    "HingeEmbeddingLoss": lambda nn, v: (
        nn.HingeEmbeddingLoss(0.5),
        v(2, 3),
        v.these([[1, -1, 1], [-1, -1, 1]], "float32"),
    ),
    "MultiLabelSoftMarginLoss": lambda nn, v: (
        nn.MultiLabelSoftMarginLoss(reduction="none"),
        v(2, 3),
        v.these([[1, 0, 1], [0, 0, 1]], "float32"),
    ),
    "MultiMarginLoss": lambda nn, v: (nn.MultiMarginLoss(2, 0.8), v(3, 4), v.of(3, below=4)),
    "PoissonNLLLoss": lambda nn, v: (nn.PoissonNLLLoss(full=True), v(2, 3), v(2, 3, low=0.5, high=5)),
    "SoftMarginLoss": lambda nn, v: (nn.SoftMarginLoss("sum"), v(3), v.these([1, -1, 1], "int64")),
    "TripletMarginLoss": lambda nn, v: (
        nn.TripletMarginLoss(0.5, 3, swap=True, reduction="none"),
        v(2, 3),
        v(2, 3),
        v(2, 3),
    ),
    "TripletMarginWithDistanceLoss": lambda nn, v: (
        nn.TripletMarginWithDistanceLoss(margin=0.4, swap=True, reduction="none"),
        v(2, 3),
        v(2, 3),
        v(2, 3),
    ),
    "HSigmoidLoss": lambda nn, v: (nn.HSigmoidLoss(4, 6), v(3, 4), v.of(3, 1, below=6)),
    "CTCLoss": lambda nn, v: (
        nn.CTCLoss(),
        v(5, 2, 4),
        v.of(2, 2, low=1, below=4, dtype="int32"),
        v.these([5, 4], "int64"),
        v.these([2, 1], "int64"),
    ),
    # recurrences
    "SimpleRNNCell": lambda nn, v: (nn.SimpleRNNCell(3, 4, "relu"), v(2, 3)),
    "LSTMCell": lambda nn, v: (nn.LSTMCell(3, 4), v(2, 3), (v(2, 4), v(2, 4))),
    "GRUCell": lambda nn, v: (nn.GRUCell(3, 4), v(2, 3), v(2, 4)),
    "RNN": lambda nn, v: (nn.RNN(nn.GRUCell(3, 4), is_reverse=True), v(2, 3, 3)),
    "BiRNN": lambda nn, v: (nn.BiRNN(nn.LSTMCell(3, 2), nn.LSTMCell(3, 2)), v(2, 3, 3)),
    "SimpleRNN": lambda nn, v: (nn.SimpleRNN(3, 4, activation="relu"), v(2, 3, 3)),
    "LSTM": lambda nn, v: (nn.LSTM(3, 2, 2), v(2, 3, 3)),
    "LSTM_both": lambda nn, v: (
        nn.LSTM(3, 2, direction="bidirect", time_major=True),
        v(4, 2, 3),
        (v(2, 2, 2), v(2, 2, 2)),
    ),
    "LSTM_lengths": lambda nn, v: (nn.LSTM(3, 2), v(2, 4, 3), None, v.these([4, 2], "int32")),
    "GRU": lambda nn, v: (nn.GRU(3, 2, 2, "bidirect"), v(2, 3, 3)),
    # attention
    "MultiHeadAttention": lambda nn, v: (
        nn.MultiHeadAttention(4, 2, need_weights=True),
        v(2, 3, 4),
        None,
        None,
        v.of(2, 2, 3, 3, below=2, low=0),
    ),
    "MultiHeadAttention_sizes": lambda nn, v: (
        nn.MultiHeadAttention(4, 2, kdim=3, vdim=2),
        v(2, 3, 4),
        v(2, 5, 3),
        v(2, 5, 2),
    ),
    "TransformerEncoderLayer": lambda nn, v: (nn.TransformerEncoderLayer(4, 2, 6, 0.0), v(2, 3, 4)),
    "TransformerEncoder": lambda nn, v: (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 6, 0.0, "gelu", normalize_before=True), 2, nn.LayerNorm(4)
        ),
        v(2, 3, 4),
    ),
    "TransformerDecoderLayer": lambda nn, v: (
        nn.TransformerDecoderLayer(4, 2, 6, 0.0),
        v(2, 3, 4),
        v(2, 2, 4),
        v(2, 2, 3, 3),
    ),
    "Transformer": lambda nn, v: (nn.Transformer(4, 2, 1, 1, 6, 0.0), v(2, 3, 4), v(2, 2, 4)),
    # containers
    "Sequential": lambda nn, v: (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), v(2, 3)),
    "Sequential_named": lambda nn, v: (
        nn.Sequential(("first", nn.Linear(3, 4)), ("second", nn.Tanh())),
        v(2, 3),
    ),
}


def _flat(found: Any) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return [var for item in found for var in _flat(item)]
    return [found]


def fixed(layer: Any) -> dict[str, np.ndarray]:
    """Numbers for all parameters, the positive ones of variances among them."""
    rng = np.random.RandomState(3)
    return {
        name: (rng.uniform(-1, 1, param.shape) + (1.5 if "_variance" in name else 0)).astype("float32")
        for name, param in layer.named_parameters()
    }


def run(paddle: Any, name: str) -> tuple[list[np.ndarray], list[list[Any]]]:
    """The outputs, the gradients of the sum of their squares by trained parameters (of others, the values
    afterwards); names and shapes of the parameters.
    """
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        inputs = Inputs(paddle)
        layer, *given = CASES[name](paddle.nn, inputs)
        outs = _flat(layer(*given))
        params = list(layer.named_parameters())
        trained = [param for _, param in params if not param.stop_gradient]
        total = paddle.add_n([paddle.sum(paddle.cast(out, "float32") ** 2) for out in outs])
        grads = paddle.static.gradients([total], trained) if trained else []
        kept = [grad for grad in grads if grad is not None]
        rest = [param.name for _, param in params if param.stop_gradient and "spectral" not in param.name]
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        layer.set_state_dict(fixed(layer))
        values = exe.run(main, feed=inputs.feeds, fetch_list=[*outs, *kept])
        scope = paddle.static.global_scope()
        values += [np.array(scope.find_var(var).get_tensor()) for var in rest]
    described = [[key, param.name, list(param.shape)] for key, param in params]
    return [np.asarray(value) for value in values], described


def train(paddle: Any) -> list[float]:
    """The losses of six steps of Adam, of a network like LeNet."""
    nn = paddle.nn

    class LeNet(nn.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2D(1, 4, 3, padding=1), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2, 2)
            )
            self.head = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 5))

        def forward(self, x: Any) -> Any:
            return self.head(self.features(x))

    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        image = paddle.static.data("image", [None, 1, 8, 8], "float32")
        label = paddle.static.data("label", [None], "int64")
        net = LeNet()
        loss = nn.CrossEntropyLoss()(net(image), label)
        paddle.optimizer.Adam(0.01, parameters=net.parameters()).minimize(loss)
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        net.set_state_dict(fixed(net))
        rng = np.random.RandomState(5)
        losses = []
        for _ in range(6):
            feed = {
                "image": rng.uniform(-1, 1, (8, 1, 8, 8)).astype("float32"),
                "label": rng.randint(0, 5, 8).astype("int64"),
            }
            losses.append(float(np.asarray(exe.run(main, feed=feed, fetch_list=[loss])[0]).reshape(())))
    return losses


def record() -> None:
    import paddle

    paddle.enable_static()
    arrays: list[np.ndarray] = []
    shapes, params = {}, {}
    for name in CASES:
        with paddle.utils.unique_name.guard():
            values, params[name] = run(paddle, name)
        shapes[name] = [list(value.shape) for value in values]
        arrays += [value.reshape(-1).astype("float32") for value in values]
    with paddle.utils.unique_name.guard():
        losses = train(paddle)
    meta = json.dumps({"shapes": shapes, "params": params, "losses": losses})
    np.savez_compressed(PATH, meta=meta, values=np.concatenate(arrays))


if __name__ == "__main__":
    record()
