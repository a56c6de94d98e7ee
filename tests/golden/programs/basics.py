"""Regression and small classifiers."""

from typing import Any

from ..cases import Built, case, floats, ids, train


@case
def fit_a_line(fluid: Any) -> Built:
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    predicted = fluid.layers.fc(input=x, size=1, act=None)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=predicted, label=y))
    fluid.optimizer.SGD(learning_rate=0.05).minimize(loss)
    return train(fluid, {"x": floats(8, 13), "y": floats(8, 1)}, loss, predicted)


@case
def mlp(fluid: Any) -> Built:
    image = fluid.data(name="image", shape=[None, 12], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    hidden = image
    for act in ("relu", "tanh", "sigmoid", "leaky_relu", "elu"):
        hidden = fluid.layers.fc(hidden, size=10, act=act)
    predicted = fluid.layers.fc(hidden, size=4, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predicted, label))
    accuracy = fluid.layers.accuracy(predicted, label)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    return train(fluid, {"image": floats(8, 12), "label": ids(8, 1, below=4)}, loss, accuracy)


@case
def softmax_regression(fluid: Any) -> Built:
    image = fluid.layers.data(name="image", shape=[1, 4, 4], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    logits = fluid.layers.fc(image, size=5, param_attr=fluid.ParamAttr(name="weights"), bias_attr=False)
    loss, softmax = fluid.layers.softmax_with_cross_entropy(logits, label, return_softmax=True)
    loss = fluid.layers.reduce_mean(loss)
    accuracy = fluid.layers.accuracy(softmax, label, k=2)
    fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9).minimize(loss)
    return train(fluid, {"image": floats(8, 1, 4, 4), "label": ids(8, 1, below=5)}, loss, accuracy)


@case
def lenet(fluid: Any) -> Built:
    image = fluid.data(name="image", shape=[None, 1, 12, 12], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    hidden = fluid.nets.simple_img_conv_pool(
        image, num_filters=4, filter_size=3, pool_size=2, pool_stride=2, act="relu"
    )
    hidden = fluid.nets.simple_img_conv_pool(
        hidden, num_filters=6, filter_size=2, pool_size=2, pool_stride=2, pool_type="avg", act="tanh"
    )
    predicted = fluid.layers.fc(hidden, size=10, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predicted, label))
    accuracy = fluid.layers.accuracy(predicted, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    built = train(fluid, {"image": floats(6, 1, 12, 12), "label": ids(6, 1, below=10)}, loss, accuracy)
    built.after.append(type(built.steps[0])(test_program, built.steps[0].feeds, [loss, accuracy, predicted]))
    return built


@case
def multi_input_fc(fluid: Any) -> Built:
    """fc over two inputs, shared parameters, several losses added up, several outputs fetched."""
    left = fluid.data(name="left", shape=[None, 5], dtype="float32")
    right = fluid.data(name="right", shape=[None, 2, 3], dtype="float32")
    target = fluid.data(name="target", shape=[None, 4], dtype="float32")
    joined = fluid.layers.fc([left, right], size=4, act="relu")
    shared = fluid.ParamAttr(name="shared.w", learning_rate=0.5)
    once = fluid.layers.fc(joined, size=4, param_attr=shared, bias_attr=fluid.ParamAttr(name="shared.b"))
    twice = fluid.layers.fc(once, size=4, param_attr=shared, bias_attr=fluid.ParamAttr(name="shared.b"))
    frozen = fluid.layers.fc(twice, size=4, param_attr=fluid.ParamAttr(name="frozen.w", trainable=False))
    losses = [fluid.layers.mean(fluid.layers.square_error_cost(out, target)) for out in (once, twice, frozen)]
    loss = fluid.layers.sums(losses)
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    feeds = {"left": floats(4, 5), "right": floats(4, 2, 3), "target": floats(4, 4)}
    return train(fluid, feeds, loss, *losses)
