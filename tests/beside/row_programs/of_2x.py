"""Differences of 2.6.2; see the package's docstring."""

import types

import numpy as np

from beside.row_programs import gradient, run, shows

NAN, INF = float("nan"), float("inf")


def static(paddle):
    """The functions that `run` and `gradient` take from `fluid`."""
    return types.SimpleNamespace(
        Program=paddle.static.Program,
        program_guard=paddle.static.program_guard,
        unique_name=paddle.utils.unique_name,
        Executor=paddle.static.Executor,
        CPUPlace=paddle.CPUPlace,
        Scope=paddle.static.Scope,
        scope_guard=paddle.static.scope_guard,
        data=paddle.static.data,
        gradients=paddle.static.gradients,
        layers=types.SimpleNamespace(reduce_sum=paddle.sum),
    )


def declared(paddle, build):
    """The declarations that `build` reads off a program."""
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        return build()


@shows("stepped-back")
def _(paddle):
    def build(x):
        y = paddle.increment(paddle.scale(x, 2.0))
        return y, paddle.static.gradients([paddle.square(y)], [x])[0]

    return run(static(paddle), build, x=np.array([2.0]))[0], [5.0]


@shows("gathered-along")
def _(paddle):
    weights = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def build(x, at):
        return paddle.gather(x, at, axis=1) * paddle.assign(weights)

    return gradient(static(paddle), build, x=np.arange(8.0).reshape(2, 4), at=np.array([3, 0, 3]))


@shows("expanded-sizes")
def _(paddle):
    def build():
        return list(paddle.expand(paddle.static.data("x", [2, 3]), [4, -1, 3]).shape)

    return declared(paddle, build), [4, 2, 3]


@shows("compared-indices")
def _(paddle):
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        count = paddle.static.data("count", [1], "int32")
        paddle.expand(paddle.static.data("x", [1, 3]), [count, 3])
    return "equal" in [op.type for op in main.global_block().ops], False


@shows("where-of-numbers")
def _(paddle):
    def build(x):
        return paddle.where(x > 0, x, 1.0)

    return run(static(paddle), build, x=np.array([-1.0, 2.0], "float32"))[0], [1.0, 2.0]


@shows("masks-and-numbers")
def _(paddle):
    mask = np.array([True, False])
    return run(static(paddle), lambda mask: paddle.cast(mask + 1, "int64"), mask=mask)[0], [2, 1]


@shows("products-put")
def _(paddle):
    def build(x, at, values):
        return paddle.put_along_axis(x, at, values, 0, reduce="multiply")

    feeds = {"x": np.array([0.0, 2.0]), "at": np.array([0, 1]), "values": np.array([3.0, 4.0])}
    return gradient(static(paddle), build, **feeds)


@shows("powers-of-zero")
def _(paddle):
    return run(
        static(paddle),
        lambda x, y: paddle.static.gradients([paddle.pow(x, y)], [y])[0],
        x=np.array([0.0]),
        y=np.array([2.0]),
    )[0], [0.0]


@shows("smoothed-ignored")
def _(paddle):
    def build(x, label):
        return paddle.nn.functional.cross_entropy(
            x, label, ignore_index=1, label_smoothing=0.2, reduction="none"
        )

    x = np.array([[0.5, 1.0, -1.0], [0.25, 2.0, 0.0]])
    return run(static(paddle), build, x=x, label=np.array([1, 2]))[0].reshape(-1)[0], 0.0


@shows("unknown-sizes")
def _(paddle):
    main, x = paddle.static.Program(), np.array([[0.5, 1.0], [1.0, 2.0], [0.25, 0.5]])
    with paddle.static.program_guard(main, paddle.static.Program()):
        out = paddle.diff(paddle.static.data("x", [-1, 2], "float64"), axis=0)
    return paddle.static.Executor().run(main, feed={"x": x}, fetch_list=[out])[0], np.diff(x, axis=0)


@shows("written-by-loops")
def _(paddle):
    def build(x):
        i, n = (paddle.full([1], number, "int64") for number in (0, 2))
        h = paddle.tanh(x)
        body = lambda i, h: [i + 1, h * x]
        return paddle.static.nn.while_loop(lambda i, h: paddle.less_than(i, n), body, [i, h])[1]

    return gradient(static(paddle), build, x=np.array([0.5]))


@shows("sparse-paddings")
def _(paddle):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [2], "int64")
        weights = paddle.ParamAttr("table", initializer=paddle.nn.initializer.Constant(1.0))
        out = paddle.static.nn.embedding(ids, [3, 2], is_sparse=True, padding_idx=0, param_attr=weights)
        paddle.optimizer.SGD(1.0).minimize(paddle.sum(out))
    exe, scope = paddle.static.Executor(), paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        exe.run(startup)
        exe.run(main, feed={"ids": np.array([0, 1])})
        table = np.array(scope.find_var("table").get_tensor())
    # what 2.6.2's function of the same name in nn.functional does with sparse=True
    return table[0], [1.0, 1.0]


@shows("unit-triangles")
def _(paddle):
    def build(x, y):
        return paddle.linalg.triangular_solve(x, y, upper=False, unitriangular=True)

    feeds = {"x": np.array([[2.0, 5.0], [0.5, 3.0]]), "y": np.array([[1.0], [2.0]])}
    return gradient(static(paddle), build, **feeds)


@shows("functions-of-authors")
def _(paddle):
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2])
        x.stop_gradient = False
        paddle.static.nn.static_pylayer(lambda x: paddle.tanh(x), [x], lambda dy: dy)
    return any(op.type == "tanh" for op in main.global_block().ops), True


@shows("declared-determinants")
def _(paddle):
    def build():
        return list(paddle.linalg.det(paddle.static.data("x", [3, 3])).shape)

    return declared(paddle, build), []


@shows("kept-dimensions")
def _(paddle):
    x = np.array([[3.0, 1.0, 2.0]])
    found = run(static(paddle), lambda x: paddle.kthvalue(x, 2, keepdim=True), x=x)
    return [list(one.shape) for one in found], [[1, 1], [1, 1]]


@shows("functions-of-distance")
def _(paddle):
    def build(x, y, z):
        def distance(one, other):
            return paddle.sum(paddle.abs(one - other), -1)

        loss = paddle.nn.TripletMarginWithDistanceLoss(
            distance_function=distance, margin=10.0, reduction="none"
        )
        return loss(x, y, z)

    feeds = {name: np.array([[value, 2.0 * value]]) for name, value in (("x", 0.0), ("y", 1.0), ("z", 2.0))}
    return run(static(paddle), build, **feeds)[0].reshape(-1), [7.0]


@shows("values-of-gelsy")
def _(paddle):
    def build(x, y):
        return paddle.linalg.lstsq(x, y, driver="gelsy")[3]

    feeds = {"x": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], "float32"), "y": np.ones((3, 1), "float32")}
    found = run(static(paddle), build, **feeds)[0]
    return [str(found.dtype), found.size], ["float32", 0]


@shows("places-put")
def _(paddle):
    def build(values):
        x = paddle.zeros([2], "float64")
        return paddle.index_put(x, (paddle.assign(np.array([0, 0])),), values)

    found = run(
        static(paddle), lambda v: paddle.static.gradients([build(v)], [v])[0], values=np.array([1.0, 2.0])
    )
    return found[0], [0.0, 1.0]


@shows("root-of-infinity")
def _(paddle):
    return run(static(paddle), lambda x: paddle.pow(x, 0.5), x=np.array([-INF]))[0], [NAN]


@shows("turns-by-variables", error="TypeError")
def _(paddle):
    def build(x):
        return paddle.rot90(x, paddle.full([1], 1, "int32"))

    return run(static(paddle), build, x=np.array([[1.0, 2.0], [3.0, 4.0]]))[0], None


@shows("pivots-of-lu", error="ValueError")
def _(paddle):
    def build(x):
        return paddle.linalg.lu(x, pivot=False)

    return run(static(paddle), build, x=np.array([[1.0, 2.0], [3.0, 4.0]]))[0], None


@shows("tags-of-rows", error="ValueError")
def _(paddle):
    def build(scores, label, tags):
        return paddle.static.auc(scores, label, ins_tag_weight=tags)[0]

    feeds = {
        "scores": np.array([[0.1, 0.9], [0.4, 0.6], [0.7, 0.3]], "float32"),
        "label": np.array([[0], [1], [0]]),
        "tags": np.array([[0], [1], [1]], "float32"),
    }
    return run(static(paddle), build, **feeds)[0], None


@shows("renorm-by-the-largest")
def _(paddle):
    def build(x):
        return paddle.renorm(x, INF, 0, 0.7)

    return run(static(paddle), build, x=np.array([[0.0, 3.5], [-1.0, 1.4]]))[0], [[0.0, 0.7], [-0.5, 0.7]]


@shows("masked-away-infinities")
def _(paddle):
    def build(x, value):
        mask = paddle.assign(np.array([False, False]))
        out = paddle.masked_fill(x, mask, value) * paddle.assign(np.array([INF, 1.0]))
        return paddle.static.gradients([out], [value])[0]

    return run(static(paddle), build, x=np.array([1.0, 2.0]), value=np.array([3.0]))[0].reshape(-1), [0.0]


@shows("segments-of-nothing")
def _(paddle):
    feeds = {"x": np.zeros((2, 0)), "ids": np.array([0, 1])}
    found = run(static(paddle), paddle.geometric.segment_sum, **feeds)[0]
    return [list(found.shape), str(found.dtype)], [[2, 0], "float64"]


@shows("numbers-and-more", error="ValueError")
def _(paddle):
    def build(x):
        return paddle.add_n([paddle.full([], 1.0, "float64"), x])

    return run(static(paddle), build, x=np.ones([3]))[0], None


@shows("ranks-by-pivots")
def _(paddle):
    def build(x, y):
        return paddle.linalg.lstsq(x, y, rcond=0.6, driver="gelsy")[0]

    x = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    # singular values 1.73 and 1: the second one counts as none; y = x @ [2, 1] along [1, 1]
    found = run(static(paddle), build, x=x, y=x @ np.array([[2.0], [0.5]]))[0].reshape(-1)
    return found, [1.25, 1.25]


@shows("diagonals-of-cubes")
def _(paddle):
    def build(x):
        block = paddle.static.default_main_program().global_block()
        out = block.create_var(name="filled", dtype="float64")
        attrs = {"value": 5.0, "offset": 0, "wrap": False}
        block.append_op(type="fill_diagonal", inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
        return paddle.diagonal(paddle.diagonal(out))

    return run(static(paddle), build, x=np.zeros((3, 3, 3)))[0], [5.0, 5.0, 5.0]


@shows("pruned-by-sign")
def _(paddle):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.static.scope_guard(paddle.static.Scope()):
        paddle.static.nn.fc(paddle.static.data("x", [None, 4]), 4)
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
        name = main.all_parameters()[0].name
        weight = np.full([4, 4], 0.5, "float32")
        weight[0, 0] = weight[1, 1] = -9.0
        paddle.static.global_scope().find_var(name).get_tensor().set(weight, paddle.CPUPlace())
        mask = paddle.incubate.asp.prune_model(main, 2, 4, "mask_2d_best", with_mask=False)[name]
    return [float(mask[0, 0]), float(mask[1, 1])], [1.0, 1.0]


@shows("all-neighbours")
def _(paddle):
    def build(row, ends, nodes):
        return paddle.geometric.sample_neighbors(row, ends, nodes)

    feed = {"row": np.array([1, 2, 0]), "ends": np.array([0, 2, 3, 3]), "nodes": np.array([0, 1])}
    return run(static(paddle), build, **feed), [[1, 2, 0], [2, 1]]
