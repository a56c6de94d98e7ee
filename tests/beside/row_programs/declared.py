"""Differences in what 1.8.5 declares; see the package's docstring."""

from beside.row_programs import shows


def declared(fluid, build):
    """Shape and dtype that a program declares of what `build` gives."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        made = build()
        return [list(made.shape), fluid.data_feeder.convert_dtype(made.dtype)]


@shows("declared-otherwise")
def _(fluid):
    return declared(fluid, lambda: fluid.layers.has_nan(fluid.data("x", [2])))[1], "bool"


@shows("declared-indices")
def _(fluid):
    def build():
        boxes, scores = fluid.data("boxes", [1, 2, 4]), fluid.data("scores", [1, 2, 2])
        return fluid.layers.matrix_nms(boxes, scores, 0.1, 0.1, 5, 5, return_index=True)[1]

    return declared(fluid, build)[1], "int32"


@shows("instag-dtypes")
def _(fluid):
    def build():
        rows = fluid.data("rows", [None, 3], lod_level=1)
        tags = fluid.data("tags", [None, 1], "int64", lod_level=1)
        return fluid.layers.filter_by_instag(rows, tags, fluid.data("kept", [1], "int64"), True)[1]

    return declared(fluid, build)[1], "float32"


@shows("declared-empty")
def _(fluid):
    def build():
        return fluid.layers.sum([fluid.data("x", [0, 3]), fluid.data("y", [0, 3])])

    return declared(fluid, build)[0], [0, 3]


@shows("declared-more")
def _(fluid):
    def build():
        return fluid.layers.sum([fluid.data("x", [None, 3]), fluid.data("y", [2, 3])])

    return declared(fluid, build)[0], [2, 3]


@shows("declared-products")
def _(fluid):
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        fluid.layers.layer_norm(fluid.data("x", [None, 4, 3]), begin_norm_axis=2)
        op = next(op for op in main.global_block().ops if op.type == "layer_norm")
        return list(main.global_block().var(op.output("Mean")[0]).shape), [-1]
