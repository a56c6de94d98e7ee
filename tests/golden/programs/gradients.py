"""Gradients asked for by hand, stopped, of gradients; generative adversarial training."""

from typing import Any, List

from ..cases import Built, Run, case, floats, ids, train


@case
def gradient_of_gradient(fluid: Any) -> Built:
    """A gradient penalty: the loss holds the norm of a gradient, so matmul, tanh and friends go twice."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    x.stop_gradient = False
    hidden = layers.leaky_relu(layers.fc(x, size=5), alpha=0.1)
    out = layers.fc(layers.square(hidden), size=1)
    (slope,) = fluid.gradients([out], [x])
    norm = layers.sqrt(layers.reduce_sum(layers.square(slope), dim=1) + 1e-6)
    penalty = layers.reduce_mean(layers.square(norm - 1.0))
    loss = layers.mean(out) + 10.0 * penalty
    fluid.optimizer.Adam(learning_rate=0.02).minimize(loss)
    return train(fluid, {"x": floats(4, 4)}, loss, penalty, slope)


@case
def gradients_with_targets(fluid: Any) -> Built:
    """fluid.gradients of several targets, given their own gradients, for inputs and inner variables."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[3, 4], dtype="float32")
    y = fluid.data(name="y", shape=[3, 4], dtype="float32")
    upstream = fluid.data(name="upstream", shape=[3, 4], dtype="float32")
    x.stop_gradient = y.stop_gradient = False
    inner = layers.elementwise_mul(x, y)
    first, second = layers.tanh(inner), layers.reduce_sum(inner + x)
    found = fluid.gradients([first, second], [x, y, inner], target_gradients=[upstream, None])
    feeds = {"x": floats(3, 4), "y": floats(3, 4), "upstream": floats(3, 4)}
    return Built([Run(fluid.default_main_program(), feeds, [second] + list(found))])


@case
def append_backward(fluid: Any) -> Built:
    """append_backward with a parameter list, a no-grad set and a stopped branch; gradients fetched."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    first = layers.fc(x, size=4, act="relu", param_attr=fluid.ParamAttr(name="first"), bias_attr=False)
    stopped = layers.fc(first, size=4, param_attr=fluid.ParamAttr(name="stopped"), bias_attr=False)
    stopped.stop_gradient = True
    second = layers.fc(first, size=4, param_attr=fluid.ParamAttr(name="second"), bias_attr=False)
    blocked = layers.fc(first, size=4, param_attr=fluid.ParamAttr(name="blocked"), bias_attr=False)
    loss = layers.mean(layers.square(second + stopped) + blocked)
    pairs = fluid.backward.append_backward(
        loss, parameter_list=["first", "second"], no_grad_set={blocked.name}
    )
    names: List[Any] = [grad for _, grad in pairs]
    return Built([Run(fluid.default_main_program(), {"x": floats(3, 4)}, [loss] + names)])


@case
def gradient_variables(fluid: Any) -> Built:
    """One variable read by many operators: its partial gradients are renamed and summed."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 3], dtype="float32")
    hub = layers.fc(x, size=3)
    many = [layers.tanh(hub), layers.sigmoid(hub), hub * 2.0, layers.softmax(hub), hub + layers.exp(hub)]
    loss = layers.mean(layers.sums(many) + hub)
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"x": floats(4, 3)}, loss, loss.name + "@GRAD", hub.name + "@GRAD")


def generator(fluid: Any, noise: Any) -> Any:
    hidden = fluid.layers.fc(noise, size=6, act="relu", param_attr="g_w1", bias_attr="g_b1")
    return fluid.layers.fc(hidden, size=4, act="tanh", param_attr="g_w2", bias_attr="g_b2")


def discriminator(fluid: Any, image: Any) -> Any:
    hidden = fluid.layers.fc(image, size=6, act="leaky_relu", param_attr="d_w1", bias_attr="d_b1")
    return fluid.layers.fc(hidden, size=1, param_attr="d_w2", bias_attr="d_b2")


def entropy(fluid: Any, logit: Any, real: float) -> Any:
    labels = fluid.layers.fill_constant_batch_size_like(logit, shape=[-1, 1], value=real, dtype="float32")
    return fluid.layers.reduce_mean(fluid.layers.sigmoid_cross_entropy_with_logits(logit, labels))


@case
def gan(fluid: Any) -> Built:
    """Two programs over the same parameters, each with its optimizer and its own parameter list."""
    discriminate, generate = fluid.default_main_program(), fluid.Program()
    image = fluid.data(name="image", shape=[None, 4], dtype="float32")
    noise = fluid.data(name="noise", shape=[None, 3], dtype="float32")
    d_loss = entropy(fluid, discriminator(fluid, image), 1.0) + entropy(
        fluid, discriminator(fluid, generator(fluid, noise)), 0.0
    )
    fluid.optimizer.Adam(learning_rate=0.004, beta1=0.5, name="d_adam").minimize(
        d_loss, parameter_list=["d_w1", "d_b1", "d_w2", "d_b2"]
    )
    with fluid.program_guard(generate, fluid.default_startup_program()):
        noise = fluid.data(name="noise", shape=[None, 3], dtype="float32")
        fake = generator(fluid, noise)
        g_loss = entropy(fluid, discriminator(fluid, fake), 1.0)
        fluid.optimizer.Adam(learning_rate=0.004, beta1=0.5, name="g_adam").minimize(
            g_loss, parameter_list=["g_w1", "g_b1", "g_w2", "g_b2"]
        )
    return Built(
        [
            Run(discriminate, {"image": floats(4, 4), "noise": floats(4, 3)}, [d_loss]),
            Run(generate, {"noise": floats(4, 3)}, [g_loss, fake]),
        ]
    )


@case
def dcgan(fluid: Any) -> Built:
    """Convolutions both ways with batch norms; the discriminator is frozen by its parameter list."""
    layers = fluid.layers
    noise = fluid.data(name="noise", shape=[None, 3], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="float32")
    seed = layers.reshape(layers.fc(noise, size=16), [-1, 4, 2, 2])
    up = layers.conv2d_transpose(
        layers.batch_norm(seed, act="relu"), num_filters=2, filter_size=4, stride=2, padding=1, act="tanh"
    )
    down = layers.conv2d(
        up,
        num_filters=3,
        filter_size=4,
        stride=2,
        padding=1,
        act="leaky_relu",
        param_attr=fluid.ParamAttr(name="d_conv"),
    )
    logit = layers.fc(layers.batch_norm(down), size=1, param_attr=fluid.ParamAttr(name="d_fc"))
    loss = layers.mean(layers.sigmoid_cross_entropy_with_logits(logit, label))
    names = [param.name for param in fluid.default_main_program().all_parameters() if param.name[:2] != "d_"]
    trainable = [name for name in names if not name.startswith("batch_norm") or name.endswith(("w_0", "b_0"))]
    fluid.optimizer.RMSProp(learning_rate=0.01).minimize(loss, parameter_list=trainable)
    feeds = {"noise": floats(4, 3), "label": ids(4, 1, below=2, dtype="float32")}
    return train(fluid, feeds, loss, up)
