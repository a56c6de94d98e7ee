"""Programs whose transpilation is recorded: networks, and what trains them.

The same source builds under PaddlePaddle 1.8.5 (which records) and under FluidLite (which is compared), so
nothing here may import either: `fluid` always comes in as an argument. Runs on Python 3.7. Sizes are large
only as numbers: a slice has at least 8192 elements, and so the parameters that shall have slices have more
than twice as many.
"""

from __future__ import annotations

from typing import Any, Callable

Build = Callable[[Any], None]
Make = Callable[[Any], Any]
Net = Callable[[Any], Any]


# ------------------------------------------------------------------------------------------------ networks
def error_of(fluid: Any, guess: Any) -> Any:
    y = fluid.data("y", [None, 1])
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y))


def two_fc(fluid: Any) -> Any:
    """200 -> 100 -> 1: of the four parameters only the first has slices, two of 100 rows."""
    hidden = fluid.layers.fc(fluid.data("x", [None, 200]), 100, act="relu")
    return error_of(fluid, fluid.layers.fc(hidden, 1))


def wide_fc(fluid: Any) -> Any:
    """One parameter that five servers could share, by 200 rows each, and one that nobody shares."""
    hidden = fluid.layers.fc(fluid.data("x", [None, 1000]), 50, bias_attr=False)
    return error_of(fluid, fluid.layers.fc(hidden, 1, bias_attr=False))


def one_fc(fluid: Any) -> Any:
    """Two small parameters: with three servers, one has nothing to do."""
    return error_of(fluid, fluid.layers.fc(fluid.data("x", [None, 4]), 1))


def uneven_fc(fluid: Any) -> Any:
    """Rows that do not go up evenly, and rows that are larger than the smallest slice."""
    hidden = fluid.layers.fc(fluid.data("x", [None, 7]), 10001, bias_attr=False)
    return error_of(fluid, fluid.layers.fc(hidden, 1, bias_attr=False))


def shared_fc(fluid: Any) -> Any:
    """One parameter used twice: its gradient is a sum."""
    x = fluid.data("x", [None, 150])
    for _ in range(2):
        x = fluid.layers.fc(x, 150, param_attr="both", bias_attr=False)
    return error_of(fluid, fluid.layers.fc(x, 1))


def frozen_fc(fluid: Any) -> Any:
    """A parameter that nobody trains."""
    hidden = fluid.layers.fc(
        fluid.data("x", [None, 200]), 100, param_attr=fluid.ParamAttr(name="frozen", trainable=False)
    )
    return error_of(fluid, fluid.layers.fc(hidden, 1))


def scaled_fc(fluid: Any) -> Any:
    """A parameter with a learning rate of its own."""
    hidden = fluid.layers.fc(fluid.data("x", [None, 200]), 100, param_attr=fluid.ParamAttr(learning_rate=0.5))
    return error_of(fluid, fluid.layers.fc(hidden, 1))


def scoped_fc(fluid: Any) -> Any:
    with fluid.name_scope("encoder"):
        hidden = fluid.layers.fc(fluid.data("x", [None, 200]), 100)
    with fluid.name_scope("head"):
        return error_of(fluid, fluid.layers.fc(hidden, 1))


def regularised_fc(fluid: Any) -> Any:
    """A decay for each weight and none for the biases."""
    l1, l2 = (
        fluid.ParamAttr(regularizer=kind(1e-3))
        for kind in (fluid.regularizer.L1Decay, fluid.regularizer.L2Decay)
    )
    hidden = fluid.layers.fc(fluid.data("x", [None, 200]), 100, param_attr=l1)
    return error_of(fluid, fluid.layers.fc(hidden, 1, param_attr=l2))


def error_clipped_fc(fluid: Any) -> Any:
    hidden = fluid.layers.fc(fluid.data("x", [None, 200]), 100)
    fluid.default_main_program().block(0).var(hidden.name)._set_error_clip(fluid.clip.ErrorClipByValue(0.1))
    return error_of(fluid, fluid.layers.fc(hidden, 1))


def normalised(fluid: Any) -> Any:
    """Moving averages, which are parameters without a gradient."""
    hidden = fluid.layers.batch_norm(fluid.layers.fc(fluid.data("x", [None, 200]), 100))
    return error_of(fluid, fluid.layers.fc(hidden, 1))


def convolved(fluid: Any) -> Any:
    """An image classifier with metrics, whose state is persistable."""
    image, label = fluid.data("image", [None, 1, 28, 28]), fluid.data("label", [None, 1], "int64")
    hidden = fluid.nets.simple_img_conv_pool(image, 8, 5, 2, 2, act="relu")
    guess = fluid.layers.fc(hidden, 10, act="softmax")
    fluid.layers.accuracy(guess, label)
    return fluid.layers.mean(fluid.layers.cross_entropy(guess, label))


def repeated(fluid: Any) -> Any:
    """A loop: the trainer's program has sub-blocks. One parameter in it: 1.8.5 lists those of a loop in
    any order.
    """
    x = fluid.layers.fc(fluid.layers.data("x", [5, 4, 8], append_batch_size=False), 8, num_flatten_dims=2)
    start = fluid.layers.fc(fluid.layers.data("start", [4, 8], append_batch_size=False), 8)
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        step = rnn.step_input(x)
        memory = rnn.memory(start)
        fresh = fluid.layers.fc(fluid.layers.concat([step, memory], axis=1), 8, bias_attr=False)
        rnn.update_memory(memory, fresh)
        rnn.step_output(fresh)
    return fluid.layers.mean(rnn())


def words(sparse: bool = True, distributed: bool = False, size: int = 1000, **options: Any) -> Net:
    """A table, its rows summed up."""

    def net(fluid: Any) -> Any:
        ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
        rows = fluid.layers.embedding(
            ids, [size, 16], is_sparse=sparse, is_distributed=distributed, **options
        )
        return error_of(fluid, fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), 1))

    return net


def words_of_v2(fluid: Any) -> Any:
    """The same through `fluid.embedding`, whose operator is lookup_table_v2."""
    ids = fluid.data("ids", [None, 3], "int64")
    rows = fluid.embedding(ids, [1000, 16], is_sparse=True)
    return error_of(fluid, fluid.layers.fc(fluid.layers.reduce_sum(rows, dim=1), 1))


def two_tables(distributed: bool = False, names: tuple[str, str] = ("left", "right")) -> Net:
    """Two tables, or with one name for both, one that is read twice."""

    def net(fluid: Any) -> Any:
        pooled = []
        for word, name in zip(("a", "b"), names):
            ids = fluid.layers.data(word, [1], dtype="int64", lod_level=1)
            rows = fluid.layers.embedding(
                ids, [2000, 16], is_sparse=True, is_distributed=distributed, param_attr=name
            )
            pooled.append(fluid.layers.sequence_pool(rows, "sum"))
        return error_of(fluid, fluid.layers.fc(fluid.layers.concat(pooled, axis=1), 1))

    return net


def sampled(kind: str) -> Net:
    """Losses over many classes, with sparse gradients."""

    def net(fluid: Any) -> Any:
        x, label = fluid.layers.fc(fluid.data("x", [None, 8]), 16), fluid.data("label", [None, 1], "int64")
        if kind == "nce":
            cost = fluid.layers.nce(x, label, 1000, num_neg_samples=5, is_sparse=True)
        else:
            path, code = fluid.data("path", [None, 4], "int64"), fluid.data("code", [None, 4], "int64")
            cost = fluid.layers.hsigmoid(
                x, label, 1000, path_table=path, path_code=code, is_custom=True, is_sparse=True
            )
        return fluid.layers.mean(cost)

    return net


# ------------------------------------------------------------------------------------------------ training
def trained(make: Make, net: Net = two_fc) -> Build:
    """A builder of `net` and of the optimizer that `make` makes."""

    def build(fluid: Any) -> None:
        loss = net(fluid)
        make(fluid).minimize(loss)

    return build


def optimizer(name: str, *values: Any, **options: Any) -> Make:
    return lambda fluid: getattr(fluid.optimizer, name)(*values, **options)


sgd = optimizer("SGD", 0.1)
adam = optimizer("Adam", 0.01)


def scheduled(make: Make) -> Make:
    """SGD whose learning rate `make` makes."""
    return lambda fluid: fluid.optimizer.SGD(make(fluid))


def schedule(name: str, *values: Any, **options: Any) -> Make:
    return lambda fluid: getattr(fluid.layers, name)(*values, **options)


def warm(inner: Any) -> Make:
    """Warm-up to a number, or to a schedule."""
    return lambda fluid: fluid.layers.linear_lr_warmup(
        inner(fluid) if callable(inner) else inner, 50, 0.0, 0.1
    )


def decayed(kind: str, name: str = "SGD", *values: Any) -> Make:
    return lambda fluid: getattr(fluid.optimizer, name)(
        0.1, *values, regularization=getattr(fluid.regularizer, kind)(1e-4)
    )


def clipped(kind: str, *limits: float, **options: Any) -> Make:
    """SGD that clips gradients, as 1.7 and later do it: an argument of the optimizer."""
    return lambda fluid: fluid.optimizer.SGD(
        0.1,
        grad_clip=getattr(fluid.clip, kind)(*limits),
        **{name: make(fluid) for name, make in options.items()},
    )


def clipped_before(kind: str, *limits: float) -> Build:
    """SGD that clips gradients, as it was said of old: of the program."""

    def build(fluid: Any) -> None:
        loss = two_fc(fluid)
        fluid.clip.set_gradient_clip(getattr(fluid.clip, kind)(*limits))
        fluid.optimizer.SGD(0.1).minimize(loss)

    return build


def two_losses(fluid: Any) -> None:
    """Two losses over a common layer, one optimizer for both together."""
    hidden = fluid.layers.fc(fluid.data("x", [None, 200]), 100)
    losses = [fluid.layers.mean(fluid.layers.fc(hidden, 1)) for _ in range(2)]
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.sum(losses))


def two_optimizers(fluid: Any) -> None:
    """Two losses of one program, each with an optimizer and with parameters of its own."""
    x = fluid.data("x", [None, 200])
    for make in (sgd, adam):
        loss = fluid.layers.mean(fluid.layers.fc(x, 100))
        make(fluid).minimize(loss)


def averaged(fluid: Any) -> None:
    """A moving average of the parameters, behind the optimizer."""
    loss = two_fc(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    fluid.optimizer.ExponentialMovingAverage(0.99).update()


def fed_by_reader(fluid: Any) -> None:
    """Data that a reader operator brings."""
    reader = fluid.layers.py_reader(4, [[-1, 200], [-1, 1]], ["float32", "float32"], [0, 0], name="reader")
    x, y = fluid.layers.read_file(reader)
    guess = fluid.layers.fc(x, 100)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(guess, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)


def only_forward(fluid: Any) -> None:
    two_fc(fluid)


def only_backward(fluid: Any) -> None:
    fluid.backward.append_backward(two_fc(fluid))
