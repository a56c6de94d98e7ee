"""Inputs at the edge of what an op takes: what is refused there, and what goes through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optest import Case, build, check_forward, run

import fluidlite as fluid
from fluidlite.base.errors import KernelError, ShapeError

ROWS = np.arange(6, dtype="float32").reshape(2, 3)
UNUSUAL = np.array([np.nan, np.inf, -np.inf, 0.2, -9, 9], "float32")


def places(*rows: list[int]) -> Any:
    return np.array(rows, "int64")


def proximal(l1: float) -> Case:
    inputs = {"Param": ROWS - 2, "Grad": ROWS, "LearningRate": np.array([0.5], "float32")}
    return Case("proximal_gd", inputs, (ROWS / 2 - 2) / 1.1, {"l1": l1, "l2": 0.2})


@pytest.mark.parametrize(
    "case",
    [
        Case("thresholded_relu", {"X": UNUSUAL}, np.array([np.nan, np.inf, 0, 0, 0, 9], "float32")),
        Case("hard_shrink", {"X": UNUSUAL}, np.array([np.nan, np.inf, -np.inf, 0, -9, 9], "float32")),
        Case("softshrink", {"X": UNUSUAL}, np.array([np.nan, np.inf, -np.inf, 0, -8.5, 8.5], "float32")),
        proximal(-0.1),
        proximal(0.0),
        Case(
            "assign_value",
            {},
            np.array([1, 2], "int64"),
            {"shape": [2], "dtype": 3, "int32_values": [4, 3], "int64_values": [1, 2, 9]},
        ),
        Case("fill", {}, ROWS[:1], {"shape": [1, 3], "value": [0.0, 1.0, 2.0, 3.0]}),
        Case("gather_nd", {"X": ROWS, "Index": places([1, 2])}, np.array([5], "float32")),
    ],
    ids=str,
)
def test_taken(case: Case) -> None:
    check_forward(case)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("gather_nd", {"X": ROWS, "Index": places([0, -1])}, {}), "index -1 is outside the 3 rows"),
        (Case("gather_nd", {"X": ROWS, "Index": places([1], [2])}, {}), "index 2 is outside the 2 rows"),
        (
            Case("scatter_nd_add", {"X": ROWS, "Index": places([3]), "Updates": ROWS[:1]}, {}),
            "index 3 is outside the 2 rows",
        ),
        (
            Case("assign_value", {}, {}, {"shape": [3], "dtype": 5, "fp32_values": [1.0]}),
            r"1 values are given, but shape \[3\] holds 3",
        ),
        (Case("fill", {}, {}, {"shape": [2, 2], "value": [1.0]}), r"1 values are given, but shape \[2, 2\]"),
    ],
    ids=str,
)
def test_refused(case: Case, message: str) -> None:
    program, feeds, names = build(case)
    with pytest.raises(ShapeError, match=f"op '{case.op}': {message}"):
        run(program, feeds, names["Out"])


def test_vectors_of_a_size_that_is_not_known_yet() -> None:
    vector = (np.ones(3, "float32"), [[3]])
    case = Case("spectral_norm", {"Weight": np.eye(2, 3), "U": np.ones(2), "V": vector}, {"Out": 0})
    program, _, names = build(case)
    assert program.global_block().var(names["Out"][0]).shape == (2, 3)


CONVOLUTIONS = {
    "conv2d": (4, 2, 3, 3),
    "depthwise_conv2d": (2, 1, 3, 3),
    "conv3d": (4, 2, 3, 3, 3),
    "conv2d_transpose": (2, 4, 3, 3),
    "depthwise_conv2d_transpose": (2, 1, 3, 3),
    "conv3d_transpose": (2, 4, 3, 3, 3),
}


@pytest.mark.parametrize("dtype", ["int32", "float64"])
@pytest.mark.parametrize("op_type", CONVOLUTIONS)
def test_convolutions_of_one_data_type(op_type: str, dtype: str) -> None:
    """Compiled ones would take the numbers of an integer filter for floats."""
    filters = np.ones(CONVOLUTIONS[op_type], dtype)
    image = np.ones((1, 2, *(5,) * (filters.ndim - 2)), "float32")
    case = Case(op_type, {"Input": image, "Filter": filters}, {}, {"groups": 2 // filters.shape[1] or 1})
    program, feeds, names = build(case)
    with pytest.raises(KernelError, match=f"'Input_0' as float32 and 'Filter_0' as {dtype}"):
        run(program, feeds, names["Output"])


@pytest.mark.parametrize("as_tensor", [False, True])
def test_grids_of_other_sizes_than_the_image(as_tensor: bool) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        image, theta = fluid.data("image", [None, 3, 16, 16]), fluid.data("theta", [None, 6])
        size = fluid.data("size", [4], "int32") if as_tensor else [2, 3, 12, 8]
        points = fluid.layers.reshape(fluid.layers.fc(theta, 6), [-1, 2, 3])
        sampled = fluid.layers.grid_sampler(image, fluid.layers.affine_grid(points, size))
        loss = fluid.layers.mean(fluid.layers.conv2d(sampled, 3, 3))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())

        feed = {"image": np.ones([2, 3, 16, 16], "float32"), "theta": np.ones([2, 6], "float32")}
        if as_tensor:
            feed["size"] = np.array([2, 3, 12, 8], "int32")
        found, _ = exe.run(feed=feed, fetch_list=[sampled, loss])
    assert found.shape == (2, 3, 12, 8)


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize(
    ("op", "slot", "value"),
    [
        ("relu", "X", places([1, 2])),
        ("sqrt", "X", np.array([[4]], "int32")),
        ("mean", "X", np.array([True, False])),
        ("pool2d", "X", np.ones([1, 1, 2, 2], "int64")),
        ("sampling_id", "X", places([1, 2])),
    ],
)
def test_whole_numbers_are_refused_by_ops_of_floats(op: str, slot: str, value: Any, naive: bool) -> None:
    attrs = {"ksize": [2, 2], "pooling_type": "max"} if op == "pool2d" else {}
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        given = fluid.data("given", list(value.shape), str(value.dtype))
        block = fluid.default_main_program().global_block()
        out = block.create_var(name="out", dtype="float32")
        block.append_op(type=op, inputs={slot: given}, outputs={"Out": out}, attrs=attrs)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        # 1.8.5: "op relu does not have kernel for data_type[int64_t]"
        with pytest.raises(KernelError, match=f"{op} does not have kernel for {value.dtype}.*'given'"):
            exe.run(feed={"given": value}, fetch_list=[out])


def test_whole_and_floating_numbers_of_one_op_are_told_apart() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        boxes = fluid.data("boxes", [2, 4], "int64")
        overlaps = fluid.layers.iou_similarity(boxes, boxes)
        with pytest.raises(KernelError, match="iou_similarity does not have kernel for int64"):
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(feed={"boxes": np.arange(8).reshape(2, 4)}, fetch_list=[overlaps])


def of_images(count: int) -> Any:
    return np.zeros([count, 1, 4, 4], "float32")


def in_one_sequence(array: Any) -> Any:
    return array, [[len(array)]]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            Case("top_k", {"X": ROWS, "K": np.array([0], "int32")}, {"Out": 0}),
            "k must be at least 1, but is 0",
        ),
        (
            Case("add_position_encoding", {"X": in_one_sequence(ROWS[:, None])}, {"Out": 0}),
            r"X has the shape \[\d, 1, 3\], wanted",
        ),
        (
            Case("top_k", {"X": ROWS, "K": np.array([4], "int32")}, {"Out": 0}),
            r"k is 4, but the last dimension of X\[\d, 3\] has only 3 elements",
        ),
        (
            Case(
                "warpctc",
                {"Logits": in_one_sequence(ROWS), "Label": in_one_sequence(places([5]))},
                {"Loss": 0},
            ),
            "Label holds 5 .row 0., which is not one of the 3 classes",
        ),
        (
            Case(
                "linear_chain_crf",
                {
                    "Emission": in_one_sequence(ROWS),
                    "Transition": np.ones([5, 3], "float32"),
                    "Label": in_one_sequence(places([1], [7])),
                },
                {"LogLikelihood": 0},
            ),
            "Label holds 7 .row 1., which is not one of the 3 classes",
        ),
        (
            Case(
                "nce",
                {"Input": ROWS, "Label": places([1], [-3]), "Weight": np.ones([4, 3], "float32")},
                {"Cost": 0},
                {"num_total_classes": 4},
            ),
            "Label holds -3 .row 1., which is not one of the 4 classes",
        ),
        (
            Case(
                "hierarchical_sigmoid",
                {"X": ROWS, "Label": places([1], [9]), "W": np.ones([3, 3], "float32")},
                {"Out": 0},
                {"num_classes": 4},
            ),
            "Label holds 9 .row 1., which is not one of the 4 classes",
        ),
        (
            Case(
                "chunk_eval",
                {"Inference": in_one_sequence(places([1], [5])), "Label": in_one_sequence(places([1], [0]))},
                {"Recall": 0},
                {"num_chunk_types": 2},
            ),
            "Inference holds 5 .row 1., which is not one of the 5 classes",
        ),
        (
            Case(
                "grid_sampler", {"X": of_images(2), "Grid": np.zeros([1, 4, 4, 2], "float32")}, {"Output": 0}
            ),
            "X has 2 images, but Grid is for 1",
        ),
        (
            Case(
                "yolov3_loss",
                {
                    "X": np.zeros([1, 8, 2, 2], "float32"),
                    "GTBox": np.full([1, 1, 4], 0.3, "float32"),
                    "GTLabel": np.array([[9]], "int32"),
                },
                {"Loss": 0},
                {"anchors": [10, 13], "anchor_mask": [0], "class_num": 3},
            ),
            "GTLabel holds 9 .row 0., which is not one of the 3 classes",
        ),
        *(
            (
                Case(
                    "unpool",
                    {
                        "X": np.ones([1, 2, 1, 1]),
                        "Indices": np.array([0, place], "int32").reshape(1, 2, 1, 1),
                    },
                    {"Out": 0},
                    {"ksize": [2, 2], "strides": [2, 2], "unpooling_type": "max"},
                ),
                f"Indices holds {place}, but an image has the size",
            )
            for place in (-1, 4)
        ),
    ],
    ids=str,
)
def test_labels_and_sizes_that_do_not_fit_are_named(case: Case, message: str) -> None:
    program, feeds, names = build(case)
    (outputs,) = (names[slot] for slot in case.expect)
    with pytest.raises((KernelError, ShapeError), match=f"op '{case.op}': {message}"):
        run(program, feeds, outputs)


@pytest.mark.parametrize("naive", [False, True])
def test_parts_of_open_sizes_that_do_not_fit(naive: bool) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        parts = [fluid.data(name, [None, None]) for name in ("upper", "lower")]
        whole = fluid.layers.concat(parts, axis=0)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        with pytest.raises(ShapeError, match="op 'concat': .* differ outside axis 0"):
            exe.run(feed={"upper": ROWS, "lower": ROWS[:, :2]}, fetch_list=[whole])


@pytest.mark.parametrize("is_test", [False, True])
def test_tables_grow_unless_they_are_tested(is_test: bool) -> None:
    """As in 1.8.5, whatever auto_grown_table is."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        block = fluid.default_main_program().global_block()
        table = block.create_var(
            name="table",
            type=fluid.core.VarDesc.VarType.SELECTED_ROWS,
            shape=[4, 2],
            dtype="float32",
            persistable=True,
        )
        ids = fluid.data("ids", [None, 1], "int64")
        rows = block.create_var(name="rows", dtype="float32")
        block.append_op(
            type="lookup_sparse_table",
            inputs={"W": table, "Ids": ids},
            outputs={"Out": rows},
            attrs={"auto_grown_table": False, "is_test": is_test},
        )
        held = fluid.global_scope().var("table").get_selected_rows()
        held.set_rows([1, 3])
        held.get_tensor().set(np.arange(8, dtype="float32").reshape(4, 2), fluid.CPUPlace())

        exe = fluid.Executor(fluid.CPUPlace())
        (found,) = exe.run(feed={"ids": places([3], [7])}, fetch_list=[rows])
    assert found.tolist() == [[2, 3], [0, 0] if is_test else [4, 5]]
    assert list(held.rows()) == ([1, 3] if is_test else [1, 3, 7])


@pytest.mark.parametrize("naive", [False, True])
def test_ids_that_are_no_column(naive: bool) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        rows = fluid.layers.embedding(ids, [5, 3])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        exe.run(fluid.default_startup_program())
        with pytest.raises(ShapeError, match=r"the last dimension of Ids must be 1, but Ids has shape \[2\]"):
            exe.run(feed={"ids": np.array([1, 2])}, fetch_list=[rows])


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("layer", ["cross_entropy", "softmax_with_cross_entropy"])
def test_labels_that_are_no_numbers_of_classes(layer: str, naive: bool) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y = fluid.data("x", [2, 3]), fluid.layers.data("y", [1], dtype="int64")
        loss = getattr(fluid.layers, layer)(x, y)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        with pytest.raises(KernelError, match="takes class indices, but 'y' is float32"):
            exe.run(feed={"x": ROWS, "y": ROWS[:, :1]}, fetch_list=[loss])


@pytest.mark.parametrize("soft, sizes", [(True, [3, 4]), (False, [3, 1]), (False, [-1, 1])])
def test_cross_entropy_is_declared_with_the_rows_of_its_labels(soft: bool, sizes: list[int]) -> None:
    x = fluid.data("x", [-1, 4], "float32")
    label = fluid.data("label", sizes, "float32" if soft else "int64")
    assert fluid.layers.cross_entropy(x, label, soft_label=soft).shape == (sizes[0], 1)


def test_log_loss_declares_one_number_a_row() -> None:
    given = [fluid.data(name, [-1, -1], "float32") for name in ("predicted", "labels")]
    assert fluid.layers.log_loss(*given).shape == (-1, 1)


@pytest.mark.parametrize("rows", [1, -1])
def test_second_derivatives_of_a_division_whose_x_is_broadcast(rows: int) -> None:
    x, y = fluid.data("x", [rows, 3], "float64"), fluid.data("y", [2, 3], "float64")
    x.stop_gradient = y.stop_gradient = False
    by_y = fluid.gradients([fluid.layers.elementwise_div(x, y)], [y])[0]
    seconds = fluid.gradients([fluid.layers.reduce_sum(fluid.layers.square(by_y))], [x, y])
    given_x, given_y = np.array([[1.0, -2.0, 0.5]]), np.array([[2.0, 1.0, -1.5], [0.5, 3.0, 1.25]])
    by_x, again_by_y = fluid.Executor(fluid.CPUPlace()).run(
        feed={"x": given_x, "y": given_y}, fetch_list=seconds
    )
    # the sum of (x / y ** 2) ** 2
    np.testing.assert_allclose(by_x, (2 * given_x / given_y**4).sum(0, keepdims=True))
    np.testing.assert_allclose(again_by_y, -4 * given_x**2 / given_y**5)


@pytest.mark.parametrize("grad, rate", [(0.0, 0.5), (1e-9, 0.5 * 0.001 / 0.0005)])
def test_rates_of_lars_jump_at_gradients_of_nothing(grad: float, rate: float) -> None:
    """So that a gradient that is a rounding error in one order of summation, and 0 in another one, gives
    steps of two sizes: here 0.5 and 1.
    """
    param = np.array([3.0, -4.0], "float32")
    inputs = {
        "Param": param,
        "Grad": np.array([grad, 0.0], "float32"),
        "Velocity": np.zeros(2, "float32"),
        "LearningRate": np.array([0.5], "float32"),
    }
    velocity = rate * 0.0005 * param
    expected = {"ParamOut": param - velocity, "VelocityOut": velocity}
    attrs = {"mu": 0.9, "lars_coeff": 0.001, "lars_weight_decay": 0.0005}
    check_forward(Case("lars_momentum", inputs, expected, attrs))


def test_second_derivatives_of_powers_of_zero_by_the_exponent() -> None:
    x, y = fluid.data("x", [4], "float64"), fluid.data("y", [4], "float64")
    y.stop_gradient = False
    slope = fluid.layers.elementwise_pow(x, y)
    for _order in range(3):
        (slope,) = fluid.gradients([slope], [y])
    (found,) = fluid.Executor(fluid.CPUPlace()).run(
        feed={"x": np.array([0.0, 0.0, 2.0, 1.0]), "y": np.array([0.5, 3.0, 1.5, 2.0])}, fetch_list=[slope]
    )
    np.testing.assert_allclose(found, [0, 0, np.log(2) ** 3 * 2**1.5, 0])
