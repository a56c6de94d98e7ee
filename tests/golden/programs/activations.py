"""Activations and other one-to-one layers, each with its own gradient."""

from typing import Any, Dict

from ..cases import Built, Layer, case, floats, layer_group, train


@case
def activations_piecewise(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "relu": layers.relu,
        "relu6": lambda x: layers.relu6(x * 10.0),
        "leaky_relu": lambda x: layers.leaky_relu(x, alpha=0.1),
        "elu": lambda x: layers.elu(x, alpha=0.7),
        "selu": layers.selu,
        "brelu": lambda x: layers.brelu(x, t_min=-0.5, t_max=0.4),
        "hard_shrink": lambda x: layers.hard_shrink(x, threshold=0.3),
        "softshrink": lambda x: layers.softshrink(x, alpha=0.3),
        "hard_sigmoid": lambda x: layers.hard_sigmoid(x, slope=0.6, offset=0.4),
        "hard_swish": lambda x: layers.hard_swish(x * 5.0),
        "thresholded_relu": lambda x: layers.thresholded_relu(x, threshold=0.2),
        "clip": lambda x: layers.clip(x, min=-0.3, max=0.6),
        "abs": layers.abs,
        "sign": layers.sign,
        "ceil": layers.ceil,
        "floor": layers.floor,
        "round": layers.round,
    }
    return layer_group(fluid, (3, 4), made)


@case
def activations_smooth(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "sigmoid": layers.sigmoid,
        "logsigmoid": layers.logsigmoid,
        "tanh": layers.tanh,
        "stanh": lambda x: layers.stanh(x, scale_a=0.6, scale_b=1.5),
        "tanh_shrink": layers.tanh_shrink,
        "swish": lambda x: layers.swish(x, beta=1.5),
        "gelu": layers.gelu,
        "gelu_tanh": lambda x: layers.gelu(x, approximate=True),
        "softplus": layers.softplus,
        "softsign": layers.softsign,
        "soft_relu": lambda x: layers.soft_relu(x, threshold=6.0),
        "exp": layers.exp,
        "square": layers.square,
        "sin": layers.sin,
        "cos": layers.cos,
        "asin": lambda x: layers.asin(x * 0.9),
        "acos": lambda x: layers.acos(x * 0.9),
        "atan": layers.atan,
        "erf": layers.erf,
        "pow": lambda x: layers.pow(x, factor=3.0),
        "scale": lambda x: layers.scale(x, scale=2.0, bias=0.5, bias_after_scale=False),
        "scale_act": lambda x: layers.scale(x, scale=2.0, bias=0.5, act="tanh"),
    }
    return layer_group(fluid, (3, 4), made)


@case
def activations_positive(fluid: Any) -> Built:
    """Layers that need positive input."""
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "log": layers.log,
        "log1p": layers.log1p,
        "sqrt": layers.sqrt,
        "rsqrt": layers.rsqrt,
        "reciprocal": layers.reciprocal,
        "pow": lambda x: layers.pow(x, factor=0.5),
        "power_of_two_tensors": lambda x: layers.elementwise_pow(x, x),
        "logsumexp": lambda x: layers.logsumexp(x, dim=1),
    }
    return layer_group(fluid, (3, 4), made, low=0.2)


@case
def activations_channels(fluid: Any) -> Built:
    """Activations that look at an axis: softmax, maxout, prelu, cumsum, normalisation."""
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "softmax": layers.softmax,
        "softmax_axis": lambda x: layers.softmax(x, axis=1),
        "log_softmax": lambda x: layers.log_softmax(x, axis=-1),
        "maxout": lambda x: layers.maxout(x, groups=2),
        "prelu_all": lambda x: layers.prelu(x, mode="all"),
        "prelu_channel": lambda x: layers.prelu(x, mode="channel"),
        "prelu_element": lambda x: layers.prelu(
            x, mode="element", param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.3))
        ),
        "cumsum": lambda x: layers.cumsum(x, axis=1),
        "cumsum_exclusive": lambda x: layers.cumsum(x, axis=-1, exclusive=True),
        "cumsum_reverse": lambda x: layers.cumsum(x, axis=2, reverse=True),
        "l2_normalize": lambda x: layers.l2_normalize(x, axis=1),
        "clip_by_norm": lambda x: layers.clip_by_norm(x, max_norm=1.0),
        "affine_channel": lambda x: layers.affine_channel(
            x,
            scale=layers.create_parameter(
                [4], "float32", default_initializer=fluid.initializer.Constant(2.0)
            ),
            bias=layers.create_parameter([4], "float32", is_bias=True),
        ),
    }
    return layer_group(fluid, (2, 4, 2, 3), made)


@case
def activations_by_name(fluid: Any) -> Built:
    """Activations as layers name them: the `act` argument."""
    x = fluid.data(name="x", shape=[None, 3], dtype="float32")
    names = (
        "relu",
        "sigmoid",
        "tanh",
        "softmax",
        "softsign",
        "square",
        "exp",
        "relu6",
        "swish",
        "leaky_relu",
        "gelu",
        "elu",
        "softplus",
        "abs",
    )
    outs = [fluid.layers.fc(x, size=3, act=name, name="act_" + name) for name in names]
    loss = fluid.layers.mean(fluid.layers.concat(outs, axis=1))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"x": floats(3, 3)}, loss, *outs)
