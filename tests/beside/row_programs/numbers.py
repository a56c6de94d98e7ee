"""Values of 1.8.5 that are not those of the functions; see the package's docstring."""

import numpy as np

from beside.row_programs import run, shows

NAN, INF = float("nan"), float("inf")


def by_op(fluid, kind, inputs, attrs, dtype="float32", out="Out"):
    """The result of an op that has no function."""
    block = fluid.default_main_program().current_block()
    made = block.create_var(name=kind + "_out", dtype=dtype)
    block.append_op(type=kind, inputs=inputs, outputs={out: [made]}, attrs=attrs)
    return made


@shows("multiplex-of-fewer", error="ShapeError")
def _(fluid):
    def build(x, y, ids):
        return fluid.layers.multiplex([x, y], ids)

    x = np.ones((3, 2), "float32")
    return run(fluid, build, x=x, y=2 * x, ids=np.array([[0]], "int32")), None


@shows("exchanged-in-loops")
def _(fluid):
    def build(a, b):
        i, n = (fluid.layers.fill_constant([1], "int64", number) for number in (0, 1))
        one = fluid.layers.fill_constant([1], "int64", 1)
        return fluid.layers.while_loop(
            lambda i, a, b: fluid.layers.less_than(i, n),
            lambda i, a, b: [fluid.layers.elementwise_add(i, one), b, a],
            [i, fluid.layers.assign(a), fluid.layers.assign(b)],
        )[1:]

    return run(fluid, build, a=np.array([1.0]), b=np.array([2.0])), [[2.0], [1.0]]


@shows("deformed-steps")
def _(fluid):
    def build(step):
        def made(x, offset, mask):
            weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.5))
            return fluid.layers.deformable_conv(
                x, offset, mask, 2, 1, im2col_step=step, param_attr=weights, bias_attr=False
            )

        return made

    feeds = {
        "x": np.arange(16.0).reshape(2, 2, 2, 2).astype("float32"),
        "offset": np.zeros((2, 2, 2, 2), "float32"),
        "mask": np.ones((2, 1, 2, 2), "float32"),
    }
    right = np.repeat(0.5 * feeds["x"].sum(1, keepdims=True), 2, 1)
    return run(fluid, build(2), **feeds)[0], right


@shows("trees-of-few-nodes")
def _(fluid):
    def build(nodes, edges):
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.5))
        return fluid.contrib.layers.tree_conv(
            nodes, edges, 1, 1, 2, act=None, param_attr=weights, bias_attr=False
        )

    nodes = np.ones((2, 3, 2), "float32")
    edges = np.array([[[1, 2], [1, 3]], [[1, 2], [0, 0]]], "int32")
    found = run(fluid, build, nodes=nodes, edges=edges)[0].reshape(2, -1)
    return found[1, -1], 0.0


@shows("powers-of-fewer")
def _(fluid):
    x, y = np.array([2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 1.0]])
    return run(fluid, fluid.layers.elementwise_pow, x=x, y=y)[0], x**y


@shows("floors-of-fewer")
def _(fluid):
    x, y = np.array([7, 9]), np.array([[2, 3], [4, 5]])
    return run(fluid, fluid.layers.elementwise_floordiv, x=x, y=y)[0], x // y


@shows("fill-of-nan")
def _(fluid):
    return run(fluid, lambda: fluid.layers.fill_constant([1], "float32", NAN))[0], [NAN]


@shows("indices-in-loops")
def _(fluid):
    def build(x):
        i, n = (fluid.layers.fill_constant([1], "int32", number) for number in (0, 3))
        one, total = (
            fluid.layers.fill_constant([1], "int32", 1),
            fluid.layers.fill_constant([2], "float64", 0.0),
        )

        def body(i, total):
            return [fluid.layers.elementwise_add(i, one), fluid.layers.elementwise_add(total, x[i])]

        return fluid.layers.while_loop(lambda i, total: fluid.layers.less_than(i, n), body, [i, total])[1]

    x = np.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    return run(fluid, build, x=x)[0].reshape(-1), x.sum(0)


@shows("variances-of-boxes")
def _(fluid):
    def build(prior, target):
        return fluid.layers.box_coder(prior, [0.1, 0.1, 0.2, 0.2], target, "decode_center_size")

    feeds = {"prior": np.array([[0.0, 0.0, 10.0, 10.0]]), "target": np.full((1, 1, 4), 1.0)}
    center, size = 5 + 0.1 * 10, 10 * np.exp(0.2)
    low, high = center - size / 2, center + size / 2
    return run(fluid, build, **feeds)[0], [[[low, low, high, high]]]


@shows("adaptive-largest")
def _(fluid):
    def build(x):
        attrs = {
            "pooling_type": "max",
            "ksize": [2, 2],
            "adaptive": True,
            "strides": [1, 1],
            "paddings": [0, 0],
        }
        return by_op(fluid, "pool2d", {"X": [x]}, attrs)

    x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    return run(fluid, build, x=x)[0], [[[[5.0, 7.0], [13.0, 15.0]]]]


@shows("shuffled-doubles")
def _(fluid):
    x = np.arange(4.0).reshape(1, 4, 1, 1)
    return run(fluid, lambda x: fluid.layers.shuffle_channel(x, 2), x=x)[0].reshape(-1), [0.0, 2.0, 1.0, 3.0]


@shows("split-from-behind")
def _(fluid):
    def build(x):
        block = fluid.default_main_program().current_block()
        parts = [block.create_var(name="part" + str(number), dtype="float32") for number in range(2)]
        block.append_op(
            type="split",
            inputs={"X": [x]},
            outputs={"Out": parts},
            attrs={"axis": -1, "sections": [1, 2], "num": 0},
        )
        return parts

    x = np.arange(6, dtype="float32").reshape(2, 3)
    return [list(part.shape) for part in run(fluid, build, x=x)], [[2, 1], [2, 2]]


@shows("quantized-halves")
def _(fluid):
    def build(x):
        block = fluid.default_main_program().current_block()
        out, scale = (block.create_var(name=name, dtype="float32") for name in ("out", "scale"))
        block.append_op(
            type="fake_quantize_abs_max",
            inputs={"X": [x]},
            outputs={"Out": [out], "OutScale": [scale]},
            attrs={"bit_length": 8},
        )
        return out

    x = np.array([127.0, 0.5, 1.5, 2.5, 0.5, 2.5, 4.5, 6.5, 8.5, 0.5, 2.5], "float32")
    return run(fluid, build, x=x)[0], np.round(x)


@shows("halves-of-numbers")
def _(fluid):
    def build(x):
        return fluid.layers.cast(fluid.layers.cast(x, "float16"), "float32")

    x = np.array([1.7], "float32")
    return float(run(fluid, build, x=x)[0][0]) == float(np.float16(1.7)), True


@shows("close-infinities")
def _(fluid):
    x = np.array([INF, 1.0], "float32")
    return run(fluid, fluid.layers.allclose, x=x, y=x)[0].reshape(-1), [True]


@shows("widths-that-match")
def _(fluid):
    def build(x, y):
        weights = fluid.layers.assign(w)
        block = fluid.default_main_program().current_block()
        out, middle = (block.create_var(name=name, dtype="float32") for name in ("out", "middle"))
        block.append_op(
            type="match_matrix_tensor",
            inputs={"X": [x], "Y": [y], "W": [weights]},
            outputs={"Out": [out], "Tmp": [middle]},
            attrs={"dim_t": 1},
        )
        return out

    w = np.arange(6, dtype="float32").reshape(2, 1, 3)
    x, y = np.array([[1.0, 2.0]], "float32"), np.array([[1.0, 0.5, 2.0]], "float32")
    return run(fluid, build, x=(x, [1]), y=(y, [1]))[0].reshape(-1), (x @ w[:, 0] @ y.T).reshape(-1)


@shows("partial-from-behind")
def _(fluid):
    def build(x, y):
        return fluid.contrib.layers.partial_sum([x, y], start_index=-2, length=1)

    x = np.arange(6, dtype="float32").reshape(2, 3)
    return run(fluid, build, x=x, y=10 * x)[0], 11 * x[:, 1:2]


@shows("gathered-from-behind", error="ShapeError")
def _(fluid):
    x, index = np.arange(6.0).reshape(2, 3), np.array([[-1, 0]])
    return run(fluid, fluid.layers.gather_nd, x=x, index=index), None


@shows("infinities-of-relu")
def _(fluid):
    x = np.array([-INF], "float32")
    return run(fluid, lambda x: fluid.layers.leaky_relu(x, alpha=0.0), x=x)[0], [0.0]


@shows("nearly-equal")
def _(fluid):
    return run(fluid, fluid.layers.equal, x=np.array([1e-9]), y=np.array([0.0]))[0], [False]


@shows("negative-zero")
def _(fluid):
    found = run(fluid, lambda x: fluid.layers.scale(x, 2.0), x=np.array([-0.0], "float32"))[0]
    return bool(np.signbit(found)[0]), True


@shows("clips-of-their-own")
def _(fluid):
    def build(x):
        def weight(name, bound):
            return fluid.ParamAttr(
                name,
                initializer=fluid.initializer.Constant(0.0),
                gradient_clip=fluid.clip.GradientClipByValue(bound),
            )

        out = [
            fluid.layers.fc(x, 1, param_attr=weight(*one), bias_attr=False)
            for one in (("u", 0.5), ("v", 2.0))
        ]
        loss = fluid.layers.reduce_sum(fluid.layers.sums(out))
        fluid.optimizer.SGD(1.0).minimize(loss)
        block = fluid.default_main_program().global_block()
        return [fluid.layers.assign(block.var(name)) for name in ("u", "v")]

    return [part.reshape(-1) for part in run(fluid, build, x=np.array([[3.0]], "float32"))], [[-0.5], [-2.0]]


@shows("padding-of-sums")
def _(fluid):
    def build(ids):
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(1.0))
        out = fluid.contrib.layers.fused_embedding_seq_pool(
            ids, [3, 2], is_sparse=True, padding_idx=0, param_attr=weights
        )
        fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(out))
        return fluid.layers.assign(fluid.default_main_program().global_block().var("w"))

    return run(fluid, build, ids=(np.array([[0], [1]]), [2]))[0], [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


@shows("elu-below-zero")
def _(fluid):
    return run(fluid, lambda x: fluid.layers.elu(x, alpha=-0.5), x=np.array([2.0]))[0], [2.0]


@shows("clip-by-norm-of-zeros")
def _(fluid):
    zeros = np.zeros(2, "float32")
    return run(fluid, lambda x: fluid.layers.clip_by_norm(x, 1.0), x=zeros)[0], zeros


@shows("sparse-padding")
def _(fluid):
    def build(ids):
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(1.0))
        out = fluid.layers.embedding(ids, [3, 2], is_sparse=True, padding_idx=0, param_attr=weights)
        fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(out))
        return fluid.layers.assign(fluid.default_main_program().global_block().var("w"))

    return run(fluid, build, ids=np.array([[0], [1]]))[0], [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


@shows("tanh-of-nan")
def _(fluid):
    nans = np.full(9, NAN, "float32")
    return run(fluid, fluid.layers.tanh, x=nans)[0], nans


@shows("slices-of-nothing")
def _(fluid):
    x = np.arange(6.0).reshape(2, 3)
    return list(run(fluid, lambda x: fluid.layers.strided_slice(x, [0], [2], [1], [1]), x=x)[0].shape), [0, 3]


@shows("sensitive-positions")
def _(fluid):
    def build(x, boxes, moves):
        return fluid.layers.deformable_roi_pooling(
            x, boxes, moves, no_trans=True, pooled_height=1, pooled_width=1, position_sensitive=True
        )

    boxes = (np.array([[0.0, 0.0, 1.0, 1.0]], "float32"), [1])
    feeds = {"x": np.ones((1, 2, 2, 2), "float32"), "moves": np.zeros((1, 2, 1, 1), "float32")}
    return run(fluid, build, x=feeds["x"], boxes=boxes, moves=feeds["moves"])[0].shape, [1, 2, 1, 1]


@shows("ranks-on-the-cpu")
def _(fluid):
    def build(x, offset):
        weights = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.5))
        return fluid.contrib.layers.rank_attention(x, offset, [18, 2], weights, 3)

    offset = np.array([[1, 1, 0, 0, 0, 0, 0]], "int32")
    return run(fluid, build, x=np.ones((1, 2), "float32"), offset=offset)[0], [[1.0, 1.0]]


@shows("backward-lstm")
def _(fluid):
    def build(x):
        weights = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1))
        both = fluid.contrib.layers.basic_lstm(x, None, None, 1, bidirectional=True, param_attr=weights)[0]
        return fluid.layers.slice(both, [1, 2], [1, 1], [2, 2])

    # the last step is the first one backwards, from states of zeros: gates i, j, f, o are 0.1 * 2
    gate = 1 / (1 + np.exp(-0.2))
    right = gate * np.tanh(gate * np.tanh(0.2))
    return run(fluid, build, x=np.array([[[1.0], [2.0]]], "float32"))[0].reshape(-1), [right]


@shows("crowds-alone")
def _(fluid):
    def build(boxes, scores, anchors, variances, truth, crowd, info):
        return fluid.layers.rpn_target_assign(
            boxes, scores, anchors, variances, truth, crowd, info, rpn_batch_size_per_im=2, use_random=False
        )[2]

    anchors = np.array([[0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 4.0, 4.0]], "float32")
    feeds = {
        "boxes": np.zeros((1, 2, 4), "float32"),
        "scores": np.zeros((1, 2, 1), "float32"),
        "anchors": anchors,
        "variances": np.ones((2, 4), "float32"),
        "truth": (anchors[:1], [1]),
        "crowd": (np.array([[1]], "int32"), [1]),
        "info": np.array([[10.0, 10.0, 1.0]], "float32"),
    }
    return int(run(fluid, build, **feeds)[0].sum()), 0


@shows("windows-of-nothing", error="ShapeError")
def _(fluid):
    x = np.ones((1, 1, 2, 2), "float32")
    return run(fluid, lambda x: fluid.layers.pool2d(x, 0), x=x)[0].max(), 0.0


@shows("paddings-below-zero", error="ShapeError")
def _(fluid):
    def build(x):
        return fluid.layers.unfold(x, 1, paddings=-1)

    return run(fluid, build, x=np.arange(9, dtype="float32").reshape(1, 1, 3, 3))[0].reshape(-1), [4.0]


@shows("fractions-of-numpy")
def _(fluid):
    def build(x):
        return fluid.layers.leaky_relu(x, alpha=np.float32(0.5))

    return run(fluid, build, x=np.array([-1.0, 1.0], "float32"))[0], [-0.5, 1.0]


@shows("no-box-at-all")
def _(fluid):
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        boxes, scores = fluid.data("boxes", [1, 3, 4]), fluid.data("scores", [1, 2, 3])
        out = fluid.layers.matrix_nms(boxes, scores, 0.5, 0.5, 5, 5)
    feed = {"boxes": np.ones((1, 3, 4), "float32"), "scores": np.zeros((1, 2, 3), "float32")}
    exe = fluid.Executor(fluid.CPUPlace())
    return exe.run(main, feed=feed, fetch_list=[out], return_numpy=False)[0].shape(), [0, 6]


@shows("forgets-of-nothing")
def _(fluid):
    def build(x):
        return fluid.layers.dynamic_lstm(x, 4, use_peepholes=False)[1]

    # candidate, input, forget, output
    x = np.array([[0.5, 0.0, np.nan, 0.5]], "float32")
    return run(fluid, build, x=(x, [1]))[0], [[np.tanh(0.5) / 2]]
