"""Training with quantised values: the programs that QuantizeTranspiler makes, run for ten steps."""

from typing import Any

from ..cases import Built, floats, ids, named, train


def quantised(activation: str, weight: str, bits: int) -> Any:
    def build(fluid: Any) -> Built:
        image = fluid.data(name="image", shape=[4, 1, 12, 12], dtype="float32")
        label = fluid.data(name="label", shape=[4, 1], dtype="int64")
        hidden = fluid.nets.simple_img_conv_pool(image, 4, 3, 2, 2, act="relu")
        hidden = fluid.layers.conv2d(hidden, 6, 3, act="relu")
        prediction = fluid.layers.fc(hidden, 10, act="softmax")
        loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, label))
        fluid.optimizer.Momentum(0.02, 0.9).minimize(loss)
        fluid.contrib.QuantizeTranspiler(
            weight_bits=bits, activation_quantize_type=activation, weight_quantize_type=weight, window_size=4
        ).training_transpile(fluid.default_main_program(), fluid.default_startup_program())
        return train(fluid, {"image": floats(4, 1, 12, 12), "label": ids(4, 1, below=10)}, loss)

    return build


named("quantised_by_window", quantised("range_abs_max", "abs_max", 8))
named("quantised_by_average", quantised("moving_average_abs_max", "abs_max", 8))
named("quantised_each_time", quantised("abs_max", "abs_max", 16))
