"""`contrib.mixed_precision`: programs in half precision, which 1.8.5 cannot run on the CPU, and the scale of
the loss, which it can when all ops are kept in single precision.
"""

import importlib
from typing import Any, Dict

import numpy as np

from ..cases import Built, Fed, Run, case


def _module(fluid: Any) -> Any:
    """1.8.5 does not import it with fluid."""
    return importlib.import_module(fluid.__name__ + ".contrib.mixed_precision")


def _convolutions(fluid: Any) -> Any:
    layers = fluid.layers
    img = fluid.data("img", [None, 1, 8, 8])
    label = fluid.data("label", [None, 1], "int64")
    normed = layers.batch_norm(layers.conv2d(img, 2, 3, act="relu", padding=1))
    pooled = layers.pool2d(normed, 2, "max", 2)
    joined = layers.elementwise_add(pooled, layers.conv2d(pooled, 2, 3, padding=1))
    hidden = layers.dropout(layers.fc(joined, 4, act="tanh"), 0.3, seed=3)
    predicted = layers.fc([layers.fc(hidden, 3), hidden], 3, act="softmax")
    return layers.mean(layers.cross_entropy(predicted, label))


def _attention(fluid: Any) -> Any:
    layers = fluid.layers
    words = fluid.data("words", [None, 3, 1], "int64")
    x = layers.layer_norm(layers.embedding(words, [10, 4]), begin_norm_axis=2)
    query, key = (layers.fc(x, 4, num_flatten_dims=2) for _ in range(2))
    weights = layers.softmax(layers.matmul(query, key, transpose_y=True, alpha=0.5))
    mixed = layers.gelu(layers.reshape(layers.matmul(weights, x), [-1, 12]))
    split = layers.split(layers.fc(mixed, 4), 2, dim=1)
    return layers.mean(layers.square(layers.stack([split[0], layers.cast(split[1], "float32")]) * 2.0))


def _built(fluid: Any, net: Any, optimizer: Any, **options: Any) -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        loss = net(fluid)
        _module(fluid).decorate(optimizer(), **options).minimize(loss)
    return [main, startup]


@case
def half_precision(fluid: Any) -> Built:
    """Casts, roles, the scale of the loss: all programs of ten ops and more that differ."""
    lists = _module(fluid).AutoMixedPrecisionLists
    optimizer = fluid.optimizer
    clipped = {"grad_clip": fluid.clip.GradientClipByGlobalNorm(1.0)}
    custom = lists({"layer_norm", "softmax"}, {"tanh", "relu"}, {"fc_0.tmp_0"})
    fixed_scale = {"use_dynamic_loss_scaling": False, "init_loss_scaling": 8.0}
    decay = {"regularization": fluid.regularizer.L2Decay(0.1)}
    return Built(
        [],
        [],
        [
            *_built(fluid, _convolutions, lambda: optimizer.SGD(0.1, **clipped, **decay), **fixed_scale),
            *_built(fluid, _convolutions, lambda: optimizer.Adam(0.1), amp_lists=custom),
            *_built(fluid, _attention, lambda: optimizer.Momentum(0.1, 0.9), decr_ratio=0.5),
            *_built(fluid, _attention, lambda: optimizer.SGD(0.1), amp_lists=custom, **fixed_scale),
        ],
    )


@case
def loss_scaling(fluid: Any) -> Built:
    """A scale that grows and shrinks; the gradients of steps 3, 6, 7 and 8 are infinite."""

    def x(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
        return (rng.uniform(-1, 1, (3, 4)) * (1e38 if step in (3, 6, 7, 8) else 1)).astype("float32"), []

    layers = fluid.layers
    loss = layers.mean(layers.square(layers.fc(layers.fc(fluid.data("x", [None, 4]), 4, act="tanh"), 2)))
    loss = layers.mean(layers.fc(fluid.data("x", [None, 4]), 2)) + loss
    single = _module(fluid).AutoMixedPrecisionLists(custom_black_list={"mul", "elementwise_add", "tanh"})
    optimizer = _module(fluid).decorate(
        fluid.optimizer.SGD(0.01),
        single,
        init_loss_scaling=4.0,
        incr_every_n_steps=1,
        decr_every_n_nan_or_inf=1,
        incr_ratio=4.0,
        decr_ratio=0.25,
    )
    optimizer.minimize(loss)
    state = ["num_good_steps_0", "num_bad_steps_0"]
    return Built([Run(fluid.default_main_program(), {"x": x}, [optimizer.get_loss_scaling(), *state])])
