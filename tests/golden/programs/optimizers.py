"""Every optimizer, dense and, where it takes SelectedRows, with a sparse embedding."""

from typing import Any, Callable, Dict

from ..cases import Built, Fed, Feed, case, floats, ids, named, train

Make = Callable[[Any], Any]

MAKERS: Dict[str, Make] = {
    "sgd": lambda o: o.SGD(learning_rate=0.1),
    "momentum": lambda o: o.Momentum(learning_rate=0.1, momentum=0.9),
    "nesterov": lambda o: o.Momentum(learning_rate=0.1, momentum=0.9, use_nesterov=True),
    "lars": lambda o: o.LarsMomentum(
        learning_rate=0.5, momentum=0.9, lars_coeff=0.05, lars_weight_decay=0.01
    ),
    "adam": lambda o: o.Adam(learning_rate=0.05, beta1=0.8, beta2=0.95, epsilon=1e-3),
    "adam_lazy": lambda o: o.Adam(learning_rate=0.05, lazy_mode=True),
    "adamax": lambda o: o.Adamax(learning_rate=0.05, beta1=0.8, beta2=0.9, epsilon=1e-4),
    "adagrad": lambda o: o.Adagrad(learning_rate=0.1, epsilon=1e-4, initial_accumulator_value=0.1),
    "decayed_adagrad": lambda o: o.DecayedAdagrad(learning_rate=0.05, decay=0.9, epsilon=1e-4),
    "adadelta": lambda o: o.Adadelta(learning_rate=0.5, epsilon=1e-3, rho=0.9),
    "rmsprop": lambda o: o.RMSProp(learning_rate=0.02, rho=0.9, epsilon=1e-4, momentum=0.5),
    "rmsprop_centered": lambda o: o.RMSProp(
        learning_rate=0.02, rho=0.9, epsilon=1e-4, momentum=0.5, centered=True
    ),
    "ftrl": lambda o: o.Ftrl(learning_rate=0.1, l1=0.02, l2=0.05, lr_power=-0.5),
    "ftrl_power": lambda o: o.Ftrl(learning_rate=0.1, l1=0.0, l2=0.01, lr_power=-0.4),
    "lamb": lambda o: o.Lamb(
        learning_rate=0.05,
        lamb_weight_decay=0.02,
        beta1=0.8,
        beta2=0.9,
        epsilon=1e-4,
        exclude_from_weight_decay_fn=lambda param: param.name.endswith(".b_0"),
    ),
    "dpsgd": lambda o: o.Dpsgd(learning_rate=0.1, clip=1.0, batch_size=4.0, sigma=0.0),
}
# No ftrl: 1.8.5 has the kernel, but its shape rule refuses a sparse gradient when the program is built.
SPARSE = (
    "sgd",
    "momentum",
    "nesterov",
    "adam",
    "adam_lazy",
    "adagrad",
    "rmsprop",
    "rmsprop_centered",
    "lamb",
)


def dense_case(fluid: Any, make: Make) -> Built:
    x = fluid.data(name="x", shape=[None, 5], dtype="float32")
    y = fluid.data(name="y", shape=[None, 1], dtype="float32")
    hidden = fluid.layers.fc(x, size=4, act="tanh")
    predicted = fluid.layers.fc(hidden, size=1, param_attr=fluid.ParamAttr(learning_rate=2.0))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))
    make(fluid.optimizer).minimize(loss)
    return train(fluid, {"x": floats(4, 5), "y": floats(4, 1)}, loss)


def repeating(rng: Any, step: int, others: Dict[str, Fed]) -> Fed:
    """Words of which the first comes twice.

    A batch of different words in no order would meet a fault of 1.8.5: sparse momentum and rmsprop then
    look for rows by bisection in an unsorted list and miss some.
    """
    words = rng.randint(0, 10, (2, 3)).astype("int64")
    words[1, 2] = words[0, 0]
    return words, []


def sparse_case(fluid: Any, make: Make) -> Built:
    """Repeated ids in a batch, and ids that stay out of a batch."""
    words = fluid.data(name="words", shape=[None, 3], dtype="int64")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    vectors = fluid.embedding(
        words,
        size=[10, 4],
        is_sparse=True,
        param_attr=fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.5, 0.5)),
    )
    pooled = fluid.layers.reduce_mean(vectors, dim=1)
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(pooled, size=3), label))
    make(fluid.optimizer).minimize(loss)
    feeds: Dict[str, Feed] = {"words": repeating, "label": ids(2, 1, below=3)}
    return train(fluid, feeds, loss)


def register() -> None:
    for name, make in MAKERS.items():
        named("optimizer_" + name, lambda fluid, make=make: dense_case(fluid, make))
    for name in SPARSE:
        named("sparse_" + name, lambda fluid, make=MAKERS[name]: sparse_case(fluid, make))


register()


@case
def adam_over_shared_table(fluid: Any) -> Built:
    """One sparse table looked up three times: its gradients are summed as SelectedRows; L2 decay on top."""
    left = fluid.data(name="left", shape=[None, 1], dtype="int64")
    right = fluid.data(name="right", shape=[None, 1], dtype="int64")
    parts = [
        fluid.layers.embedding(word, size=[8, 3], is_sparse=True, param_attr="table")
        for word in (left, right, left)
    ]
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(fluid.layers.concat(parts, axis=1), size=2)))
    fluid.optimizer.Adam(learning_rate=0.01, regularization=fluid.regularizer.L2Decay(0.1)).minimize(loss)
    return train(fluid, {"left": ids(3, 1, below=8), "right": ids(3, 1, below=8)}, loss)


@case
def sparse_padding(fluid: Any) -> Built:
    """The row of padding_idx reads as zeros; 1.8.5 moves it all the same when the table is sparse."""
    words = fluid.data(name="words", shape=[None, 3], dtype="int64")
    vectors = fluid.embedding(words, size=[4, 3], is_sparse=True, padding_idx=-1, param_attr="table")
    loss = fluid.layers.reduce_mean(fluid.layers.square(fluid.layers.fc(vectors, size=2, num_flatten_dims=2)))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"words": ids(3, 3, below=4)}, loss)


@case
def sparse_clip_global_norm(fluid: Any) -> Built:
    """Global-norm clipping over a SelectedRows gradient and a dense one."""
    words = fluid.data(name="words", shape=[None, 3], dtype="int64")
    vectors = fluid.embedding(words, size=[9, 4], is_sparse=True)
    loss = fluid.layers.reduce_sum(fluid.layers.square(fluid.layers.fc(vectors, size=3, num_flatten_dims=2)))
    clip = fluid.clip.GradientClipByGlobalNorm(clip_norm=0.3)
    fluid.optimizer.SGD(learning_rate=0.1, grad_clip=clip).minimize(loss)
    return train(fluid, {"words": ids(3, 3, below=9)}, loss)
