"""Programs that are trained on several devices, under FluidLite and, by make_data_parallel.py, under
PaddlePaddle 1.8.5.
"""

from collections import namedtuple

import numpy as np

STEPS = 3
# build(fluid) -> loss or (loss, fetches); feed(generator) -> dict; devices recorded; strategy(fluid) ->
# BuildStrategy or None;
# `listed`: feeds are cut into one dict a device by `cut`, so that both frameworks share them in the same way
Case = namedtuple("Case", "name build feed devices strategy listed", defaults=((2,), None, False))
CASES = []


def case(devices=(2,), strategy=None, listed=False, feed=None):
    def add(build):
        CASES.append(Case(build.__name__, build, feed or rows(), devices, strategy, listed))
        return build

    return add


def rows(count=12, **more):
    """Feeds of 12 rows: they fall into equal parts on 2, 3 and 4 devices."""

    def feed(random):
        found = {
            "x": random.standard_normal((count, 5)).astype("float32"),
            "y": random.standard_normal((count, 1)).astype("float32"),
        }
        found.update((name, make(random, count)) for name, make in more.items())
        return found

    return feed


def ids(random, count):
    return random.integers(0, 7, (count, 1)).astype("int64")


def labels(random, count):
    return random.integers(0, 3, (count, 1)).astype("int64")


def words(random, count):
    """A batch of sequences as (rows, lengths)."""
    lengths = [1 + int(number) for number in random.integers(0, 4, count)]
    return random.integers(0, 7, (sum(lengths), 1)).astype("int64"), [lengths]


def data(fluid):
    return fluid.data("x", [None, 5]), fluid.data("y", [None, 1])


def regression(fluid, act="tanh", **options):
    x, y = data(fluid)
    hidden = fluid.layers.fc(x, 6, act=act, **options)
    out = fluid.layers.fc(hidden, 1, **options)
    return fluid.layers.mean(fluid.layers.square_error_cost(out, y))


@case(devices=(2, 3, 4))
def sgd(fluid):
    loss = regression(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


@case(devices=(2, 4))
def batch_norm(fluid):
    x, y = data(fluid)
    hidden = fluid.layers.batch_norm(fluid.layers.fc(x, 4), act="relu", momentum=0.8)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return loss


@case(
    feed=rows(
        image=lambda random, count: random.standard_normal((count, 1, 6, 6)).astype("float32"), label=labels
    )
)
def convolutions(fluid):
    image, label = fluid.data("image", [None, 1, 6, 6]), fluid.data("label", [None, 1], "int64")
    hidden = fluid.layers.conv2d(image, 3, 3, act="relu")
    hidden = fluid.layers.pool2d(hidden, 2, "max", 2)
    out = fluid.layers.fc(hidden, 3, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
    accuracy = fluid.layers.accuracy(out, label)
    fluid.optimizer.Adam(0.05).minimize(loss)
    return loss, [accuracy]


def table(fluid, optimizer, sparse=True):
    word, y = fluid.data("word", [None, 1], "int64"), fluid.data("y", [None, 1])
    rows_of_table = fluid.layers.reshape(fluid.embedding(word, [7, 4], is_sparse=sparse), [-1, 4])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(rows_of_table, 1), y))
    optimizer.minimize(loss)
    return loss


@case(feed=rows(word=ids), devices=(2, 3))
def sparse_sgd(fluid):
    return table(fluid, fluid.optimizer.SGD(0.5))


@case(feed=rows(word=ids))
def sparse_momentum(fluid):
    return table(fluid, fluid.optimizer.Momentum(0.1, 0.9))


@case(feed=rows(word=ids))
def sparse_adagrad(fluid):
    return table(fluid, fluid.optimizer.Adagrad(0.1))


@case(feed=rows(word=ids))
def dense_table(fluid):
    return table(fluid, fluid.optimizer.SGD(0.5), sparse=False)


@case(devices=(2, 3))
def schedule(fluid):
    loss = regression(fluid)
    rate = fluid.layers.exponential_decay(0.1, 2, 0.5, staircase=True)
    fluid.optimizer.SGD(rate).minimize(loss)
    return loss, [rate]


@case()
def noam(fluid):
    loss = regression(fluid)
    fluid.optimizer.Adam(fluid.layers.noam_decay(16, 4)).minimize(loss)
    return loss


@case(devices=(2, 3))
def global_norm(fluid):
    loss = regression(fluid)
    fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.3)).minimize(loss)
    return loss


@case()
def clip_by_norm(fluid):
    loss = regression(fluid)
    fluid.optimizer.Momentum(0.1, 0.9, grad_clip=fluid.clip.GradientClipByNorm(0.2)).minimize(loss)
    return loss


@case()
def decay(fluid):
    loss = regression(fluid, param_attr=fluid.ParamAttr(regularizer=fluid.regularizer.L1Decay(0.05)))
    fluid.optimizer.Momentum(
        0.1, 0.9, use_nesterov=True, regularization=fluid.regularizer.L2Decay(0.1)
    ).minimize(loss)
    return loss


def reduced(fluid):
    strategy = fluid.BuildStrategy()
    strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    return strategy


@case(devices=(2, 3), strategy=reduced)
def reduce_adam(fluid):
    loss = regression(fluid)
    fluid.optimizer.Adam(0.05).minimize(loss)
    return loss


@case(strategy=reduced, feed=rows(word=ids))
def reduce_sparse(fluid):
    return table(fluid, fluid.optimizer.SGD(0.5))


@case(strategy=reduced)
def reduce_schedule(fluid):
    loss = regression(fluid)
    fluid.optimizer.Momentum(
        fluid.layers.exponential_decay(0.1, 1, 0.5), 0.9, regularization=fluid.regularizer.L2Decay(0.1)
    ).minimize(loss)
    return loss


def scaled(name):
    def strategy(fluid):
        found = fluid.BuildStrategy()
        found.gradient_scale_strategy = getattr(fluid.BuildStrategy.GradientScaleStrategy, name)
        return found

    return strategy


@case(strategy=scaled("One"))
def scale_one(fluid):
    loss = regression(fluid)
    fluid.optimizer.SGD(0.05).minimize(loss)
    return loss


# the loss is called mean_0.tmp_0, for names start anew in each program
@case(
    strategy=scaled("Customized"),
    feed=rows(**{"mean_0.tmp_0@GRAD": lambda random, count: np.array([0.2, 0.7], "float32")}),
)
def scale_customized(fluid):
    loss = regression(fluid)
    fluid.optimizer.SGD(0.05).minimize(loss)
    return loss


@case(listed=True, feed=rows(3))
def uneven(fluid):
    loss = regression(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


@case(
    feed=lambda random: {"word": words(random, 6), "y": random.standard_normal((6, 1)).astype("float32")},
    devices=(2, 3),
)
def sequences(fluid):
    word, y = fluid.data("word", [None, 1], "int64", lod_level=1), fluid.data("y", [None, 1])
    pooled = fluid.layers.sequence_pool(fluid.layers.embedding(word, [7, 4], is_sparse=True), "sum")
    out = fluid.layers.fc(pooled, 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
    fluid.optimizer.Adagrad(0.1).minimize(loss)
    return loss, [out]


def alone(fluid):
    """PaddlePaddle cannot fuse the reductions of two backward passes."""
    strategy = fluid.BuildStrategy()
    strategy.fuse_all_reduce_ops = False
    return strategy


@case(strategy=alone)
def two_losses(fluid):
    x, y = data(fluid)
    hidden = fluid.layers.fc(x, 4, act="tanh")
    first = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    second = fluid.layers.mean(fluid.layers.abs(fluid.layers.fc(hidden, 2)))
    fluid.optimizer.SGD(0.1).minimize(first)
    fluid.optimizer.Adam(0.05).minimize(second)
    return first, [second]


@case()
def recurrent(fluid):
    x, y = data(fluid)
    steps = fluid.layers.reshape(fluid.layers.transpose(x, [1, 0]), [5, -1, 1])
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        one = rnn.step_input(steps)
        before = rnn.memory(shape=[-1, 3], batch_ref=one)
        after = fluid.layers.fc([one, before], 3, act="tanh")
        rnn.update_memory(before, after)
        rnn.step_output(after)
    last = fluid.layers.slice(rnn(), [0], [4], [5])
    out = fluid.layers.fc(fluid.layers.reshape(last, [-1, 3]), 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


@case()
def averages(fluid):
    loss = regression(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    average = fluid.optimizer.ExponentialMovingAverage(0.9)
    average.update()
    return loss


@case(devices=(2, 3))
def piecewise(fluid):
    loss = regression(fluid)
    rate = fluid.layers.linear_lr_warmup(
        fluid.layers.piecewise_decay([1, 2], [0.1, 0.05, 0.01]), 2, 0.01, 0.1
    )
    fluid.optimizer.Momentum(rate, 0.9).minimize(loss)
    return loss, [rate]


@case(feed=rows(word=ids, other=ids))
def shared_table(fluid):
    word, other = fluid.data("word", [None, 1], "int64"), fluid.data("other", [None, 1], "int64")
    y = fluid.data("y", [None, 1])
    parts = [
        fluid.embedding(item, [7, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="table"))
        for item in (word, other)
    ]
    joined = fluid.layers.reshape(fluid.layers.concat(parts, axis=-1), [-1, 8])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(joined, 1), y))
    fluid.optimizer.Adagrad(0.1, regularization=fluid.regularizer.L2Decay(0.01)).minimize(loss)
    return loss


def tagged(random):
    rows_of_words, lengths = words(random, 6)
    return {
        "word": (rows_of_words, lengths),
        "tag": (random.integers(0, 3, rows_of_words.shape).astype("int64"), lengths),
    }


@case(feed=tagged)
def tagger(fluid):
    word, tag = (
        fluid.data("word", [None, 1], "int64", lod_level=1),
        fluid.data("tag", [None, 1], "int64", lod_level=1),
    )
    inner = fluid.layers.embedding(word, [7, 8], is_sparse=True)
    hidden, _ = fluid.layers.dynamic_lstm(inner, 8, use_peepholes=False)
    scores = fluid.layers.fc(hidden, 3)
    cost = fluid.layers.linear_chain_crf(
        scores, tag, param_attr=fluid.ParamAttr(name="transitions", learning_rate=0.1)
    )
    loss = fluid.layers.mean(cost)
    fluid.optimizer.SGD(0.05).minimize(loss)
    return loss


@case(feed=lambda random: {"word": words(random, 6), "y": random.standard_normal((6, 1)).astype("float32")})
def dynamic_rnn(fluid):
    word, y = fluid.data("word", [None, 1], "int64", lod_level=1), fluid.data("y", [None, 1])
    inner = fluid.layers.embedding(word, [7, 4])
    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        one = rnn.step_input(inner)
        before = rnn.memory(shape=[3], value=0.0)
        after = fluid.layers.fc([one, before], 3, act="tanh")
        rnn.update_memory(before, after)
        rnn.output(after)
    out = fluid.layers.fc(fluid.layers.sequence_last_step(rnn()), 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
    fluid.optimizer.Adam(0.05).minimize(loss)
    return loss


@case()
def lookahead(fluid):
    loss = regression(fluid)
    fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), alpha=0.5, k=2).minimize(loss)
    return loss


@case()
def model_average(fluid):
    loss = regression(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)
    return loss


@case()
def recompute(fluid):
    x, y = data(fluid)
    hidden = fluid.layers.fc(x, 6, act="tanh")
    more = fluid.layers.fc(hidden, 4, act="tanh")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(more, 1), y))
    optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
    optimizer._set_checkpoints([hidden])
    optimizer.minimize(loss)
    return loss


def _optimizer_case(name, make):
    def build(fluid):
        loss = regression(fluid)
        make(fluid.optimizer).minimize(loss)
        return loss

    build.__name__ = name
    case()(build)


for _name, _make in {
    "momentum": lambda o: o.Momentum(0.1, 0.9),
    "adagrad": lambda o: o.Adagrad(0.1),
    "adamax": lambda o: o.Adamax(0.05),
    "decayed_adagrad": lambda o: o.DecayedAdagrad(0.1),
    "ftrl": lambda o: o.Ftrl(0.1),
    "rmsprop": lambda o: o.RMSProp(0.05),
    "adadelta": lambda o: o.Adadelta(0.5),
    "lamb": lambda o: o.Lamb(0.05),
    "lars": lambda o: o.LarsMomentum(0.5, 0.9),
}.items():
    _optimizer_case(_name, _make)


# ---------------------------------------------------------------------- running one
def tensor(fluid, value):
    """A value to feed: a LoDTensor of (rows, lengths)."""
    return fluid.create_lod_tensor(*value, fluid.CPUPlace()) if isinstance(value, tuple) else value


def cut(feed, devices):
    """One dict a device: device i of N gets rows i * B // N to (i + 1) * B // N."""
    return [
        {
            name: value[index * len(value) // devices : (index + 1) * len(value) // devices]
            for name, value in feed.items()
        }
        for index in range(devices)
    ]


def build(fluid, item):
    """(main, startup, loss, what is fetched) of a case."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        built = item.build(fluid)
    loss, more = built if isinstance(built, tuple) else (built, [])
    return main, startup, loss, [loss, *more]


def initialise(fluid, main, scope):
    """Give every parameter values that do not depend on the framework's random numbers."""
    random = np.random.default_rng(5)
    for param in sorted(main.all_parameters(), key=lambda param: param.name):
        if param.trainable:
            value = random.standard_normal(param.shape).astype("float32") / 2
            for name in (param.name, param.name + "@SLOW"):  # the startup program has copied them before
                if scope.find_var(name) is not None:
                    scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())


def train(fluid, item, devices, exe=None, steps=STEPS):
    """(what each step fetched, the persistable variables afterwards) of a case on so many devices."""
    main, startup, loss, fetches = build(fluid, item)
    exe = exe or fluid.Executor(fluid.CPUPlace())
    scope = fluid.Scope() if hasattr(fluid, "Scope") else fluid.core.Scope()
    random = np.random.default_rng(3)
    with fluid.scope_guard(scope):
        exe.run(startup)
        initialise(fluid, main, scope)
        compiled = fluid.CompiledProgram(main).with_data_parallel(
            loss_name=loss.name,
            build_strategy=item.strategy(fluid) if item.strategy else None,
            places=fluid.cpu_places(devices),
        )
        found = []
        for _ in range(steps):
            feed = {
                name: tensor(fluid, value)
                for name, value in item.feed(random).items()
                if main.global_block().has_var(name)
            }
            found.append(
                exe.run(compiled, feed=cut(feed, devices) if item.listed else feed, fetch_list=fetches)
            )
        names = sorted(var.name for var in main.list_vars() if var.persistable)
        held = {
            name: np.array(scope.find_var(name).get_tensor())
            for name in names
            if scope.find_var(name) is not None
        }
    return found, held
