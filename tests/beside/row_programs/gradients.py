"""Gradients of 1.8.5 that are not those of what it computes; see the package's docstring."""

import numpy as np

from beside.row_programs import gradient, run, shows

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def weighed(fluid, out, shape):
    """Each element times another number, so that gradients differ from place to place."""
    weights = np.arange(1, 1 + np.prod(shape), dtype="float64").reshape(shape)
    return fluid.layers.elementwise_mul(out, fluid.layers.assign(weights.astype("float32")))


def weighed64(fluid, out, shape):
    """The same in float64."""
    return fluid.layers.elementwise_mul(
        out, fluid.layers.cast(weighed(fluid, ones(fluid, shape), shape), "float64")
    )


def ones(fluid, shape):
    """Ones of a shape."""
    return fluid.layers.fill_constant(list(shape), "float32", 1.0)


@shows("lstm-of-eights")
def _(fluid):
    def build(x):
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.05))
        return fluid.layers.dynamic_lstm(x, 32, use_peepholes=False, param_attr=weights)[0]

    x = np.linspace(-1, 1, 64).astype("float32").reshape(2, 32)
    return gradient(fluid, build, step=3e-2, x=(x, [2]))


@shows("second-of-tanh")
def _(fluid):
    def build(x):
        first = fluid.gradients([fluid.layers.tanh(x)], [x])[0]
        return fluid.gradients([first], [x])[0]

    value = np.tanh(X)
    return run(fluid, build, x=X)[0], -2 * value * (1 - value**2)


@shows("gradients-beside-results")
def _(fluid):
    label = np.array([[1], [0]])

    def build(x, label):
        soft = fluid.layers.softmax_with_cross_entropy(x, label, return_softmax=True)[1]
        return weighed64(fluid, soft, X.shape)

    return gradient(fluid, build, x=X, label=label)


@shows("targets-of-gradients")
def _(fluid):
    def build(x):
        first = fluid.gradients([fluid.layers.square(x)], [x])[0]
        return fluid.gradients([first], [x], target_gradients=[fluid.layers.scale(x, 3.0)])[0]

    return run(fluid, build, x=X)[0], 6 * X


@shows("second-of-quotients")
def _(fluid):
    y = np.array([[0.5, 2.0, 1.5]])

    def first(y):
        x = fluid.layers.fill_constant([1], "float64", 2.0)
        return fluid.gradients([fluid.layers.elementwise_div(x, y)], [y])[0]

    return run(fluid, lambda y: fluid.gradients([first(y)], [y])[0], y=y)[0], 4 / y**3


@shows("written-again")
def _(fluid):
    def build(x):
        z = fluid.layers.elementwise_mul(x, x)
        fluid.layers.assign(fluid.layers.scale(x, 5.0), z)
        return fluid.gradients([z], [x])[0]

    return run(fluid, build, x=np.array([2.0]))[0], [5.0]


@shows("written-in-loops")
def _(fluid):
    def build(x):
        i, n = (fluid.layers.fill_constant([1], "int64", number) for number in (0, 3))
        start = [i, fluid.layers.scale(x, 7.0), fluid.layers.scale(x, 1.0)]
        found = fluid.layers.while_loop(
            lambda i, p, q: fluid.layers.less_than(i, n),
            lambda i, p, q: [fluid.layers.elementwise_add(i, ones_of(fluid)), fluid.layers.assign(q), q * x],
            start,
        )
        return fluid.gradients([found[1]], [x])[0]

    # three rounds: p is x * x * x
    return run(fluid, build, x=np.array([2.0]))[0], [12.0]


def ones_of(fluid):
    """A whole number to count by."""
    return fluid.layers.fill_constant([1], "int64", 1)


@shows("batch-norm-in-place")
def _(fluid):
    def build(x):
        return weighed(fluid, fluid.layers.batch_norm(x, in_place=True), (3, 2))

    x = np.array([[0.1, 0.9], [0.8, -0.4], [-0.3, 0.2]], "float32")
    return gradient(fluid, build, step=1e-2, x=x)


@shows("slope-of-increment")
def _(fluid):
    def build(x):
        return fluid.gradients(
            [fluid.layers.increment(fluid.layers.scale(x, 2.0), 1.0, in_place=False)], [x]
        )[0]

    return run(fluid, build, x=np.array([2.0]))[0], [2.0]


@shows("several-targets")
def _(fluid):
    def build(x):
        y = fluid.layers.square(x)
        return fluid.gradients([y, fluid.layers.scale(y, 3.0)], [x])[0]

    return run(fluid, build, x=X)[0], 8 * X


@shows("slopes-of-pads")
def _(fluid):
    def build(x):
        return weighed64(fluid, fluid.layers.pad(x, [0, 0, 1, 2]), (2, 6))

    return gradient(fluid, build, x=X)


@shows("slope-of-whole-sums")
def _(fluid):
    def build(x):
        return fluid.gradients([fluid.layers.reduce_sum(x, keep_dim=True)], [x])[0]

    return run(fluid, build, x=X)[0], np.ones(X.shape)


@shows("rows-written-over")
def _(fluid):
    def build(x, ids, rows):
        return weighed64(fluid, fluid.layers.scatter(x, ids, rows, overwrite=True), (3, 1))

    feeds = {"x": np.ones((3, 1)), "ids": np.array([0, 2]), "rows": np.full((2, 1), 2.0)}
    return gradient(fluid, build, **feeds)


@shows("rows-without-length")
def _(fluid):
    def build(x, y):
        return fluid.layers.cos_sim(x, y)

    feeds = {"x": np.array([[1e-5, 2e-5]], "float32"), "y": np.array([[1.0, 0.5]], "float32")}
    return gradient(fluid, build, step=1e-5, **feeds)


@shows("sequences-without-gradient")
def _(fluid):
    def build(x, y):
        y.stop_gradient = True
        out = fluid.layers.sequence_concat([y, x])
        weights = fluid.layers.assign(np.arange(1, 4, dtype="float32").reshape(3, 1))
        return fluid.gradients([fluid.layers.reduce_sum(out * weights)], [x])[0]

    y, x = np.array([[1.0], [2.0]], "float32"), np.array([[3.0]], "float32")
    return run(fluid, build, x=(x, [1]), y=(y, [2]))[0], [[3.0]]


@shows("blanks-as-labels")
def _(fluid):
    def build(x, label):
        return fluid.layers.warpctc(x, label)

    x = (np.linspace(-1, 1, 12).astype("float32").reshape(4, 3), [4])
    return gradient(fluid, build, step=1e-2, x=x, label=(np.array([[1], [0]], "int32"), [2]))


@shows("second-by-filter")
def _(fluid):
    def build(image, s):
        image.stop_gradient = True
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.5))
        out = fluid.layers.conv2d(image, 1, 2, param_attr=weights, bias_attr=False)
        loss = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(out, s))
        (slope,) = fluid.gradients([loss], [fluid.default_main_program().global_block().var("w")])
        return fluid.layers.square(slope)

    image = np.arange(9, dtype="float32").reshape(1, 1, 3, 3) / 5
    s = np.array([[[[1.0, 2.0], [3.0, 0.5]]]], "float32")
    return gradient(fluid, build, by=1, step=1e-1, image=image, s=s)


@shows("counters-of-loops")
def _(fluid):
    def build(x):
        i, n = (fluid.layers.fill_constant([1], "int64", number) for number in (0, 3))
        found = fluid.layers.while_loop(
            lambda i, total: fluid.layers.less_than(i, n),
            lambda i, total: [fluid.layers.increment(i), fluid.layers.elementwise_mul(total, x)],
            [i, fluid.layers.scale(x, 1.0)],
        )
        fluid.gradients([found[1]], [x])
        return found[0]

    return run(fluid, build, x=np.array([2.0]))[0], [3]


@shows("transposed-in-nhwc")
def _(fluid):
    def build(x):
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.NumpyArrayInitializer(kernel))
        out = fluid.layers.conv2d_transpose(
            x, 1, filter_size=3, padding=1, param_attr=weights, bias_attr=False, data_format="NHWC"
        )
        return weighed(fluid, out, (1, 3, 4, 1))

    kernel = np.linspace(-1, 1, 9).astype("float32").reshape(1, 1, 3, 3)
    x = np.linspace(-1, 1, 12).astype("float32").reshape(1, 3, 4, 1)
    return gradient(fluid, build, step=1e-1, x=x)


@shows("fused-broadcast")
def _(fluid):
    def build(x, y):
        out = fluid.contrib.layers.fused_elemwise_activation(
            x, y, ["elementwise_mul", "tanh"], axis=-1, save_intermediate_out=False
        )
        return weighed64(fluid, out, X.shape)

    return gradient(fluid, build, by=1, x=X, y=np.array([[0.5], [2.0]]))


@shows("contexts-ahead")
def _(fluid):
    def build(x):
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.1))
        out = fluid.layers.sequence_conv(x, 1, 2, padding_start=1, param_attr=weights, bias_attr=False)
        return fluid.gradients([out], [fluid.default_main_program().global_block().var("w")])[0]

    x = np.array([[1.0], [2.0], [4.0], [8.0], [16.0], [32.0]], "float32")
    # the rows that are one and two further on in the same sequence
    return run(fluid, build, x=(x, [3, 1, 2]))[0], [[2.0 + 4.0 + 32.0], [4.0]]


@shows("arrays-of-loops")
def _(fluid):
    def build(x):
        i, n = (fluid.layers.fill_constant([1], "int64", number) for number in (0, 3))
        front = fluid.layers.tanh(x)
        array = fluid.layers.create_array("float64")
        fluid.layers.array_write(front, i, array)
        going = fluid.layers.less_than(i, n)
        loop = fluid.layers.While(going)
        with loop.block():
            fluid.layers.array_write(fluid.layers.scale(front, 2.0), i, array)
            fluid.layers.increment(i, in_place=True)
            fluid.layers.less_than(i, n, cond=going)
        out = fluid.layers.tensor_array_to_tensor(array, axis=0)[0]
        return fluid.layers.reduce_sum(fluid.layers.square(out))

    return gradient(fluid, build, x=np.array([[0.5, -0.4]]))


@shows("slopes-above-88")
def _(fluid):
    def build(x):
        return fluid.gradients([fluid.layers.elu(x)], [x])[0]

    return run(fluid, build, x=np.array([100.0], "float32"))[0], [1.0]


@shows("one-part-of-a-split")
def _(fluid):
    def build(x):
        return weighed64(fluid, fluid.layers.split(x, 3, dim=1)[1], (2, 1))

    return gradient(fluid, build, x=X)


@shows("normalised-in-place")
def _(fluid):
    def build(x):
        y = fluid.layers.data_norm(fluid.layers.tanh(x), in_place=True)
        return weighed64(fluid, y, X.shape)

    return gradient(fluid, build, x=X)


@shows("norms-of-frozen-scales")
def _(fluid):
    def build(x):
        scale = fluid.ParamAttr("s", initializer=fluid.initializer.Constant(3.0))
        y = fluid.layers.layer_norm(x, param_attr=scale)
        fluid.default_main_program().global_block().var("s").stop_gradient = True
        return weighed(fluid, y, X.shape)

    return gradient(fluid, build, step=1e-2, x=X.astype("float32"))


@shows("steps-read-twice")
def _(fluid):
    def build(x):
        rnn = fluid.layers.StaticRNN()
        with rnn.step():
            one, other = rnn.step_input(x), rnn.step_input(x)
            state = rnn.memory(shape=[-1, 3], batch_ref=one, init_value=0.5)
            new = fluid.layers.elementwise_mul(one, other) + state
            rnn.update_memory(state, new)
            rnn.step_output(new)
        return fluid.layers.reduce_sum(fluid.layers.square(rnn()))

    return gradient(fluid, build, x=np.arange(6).reshape(2, 1, 3) / 4.0)
