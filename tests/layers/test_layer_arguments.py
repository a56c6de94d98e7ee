"""Arguments that layers refuse, warn of or take in odd forms: what 1.8.5 does with them."""

from __future__ import annotations

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers
from fluidlite.base.attr_limits import broken_limit
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.registry import get


@pytest.fixture(autouse=True)
def _program():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield


def matrix(dtype="float32"):
    return fluid.data("x", [4, 6], dtype)


def image(dtype="float32"):
    return fluid.data("image", [2, 4, 6, 6], dtype)


def row():
    return fluid.data("row", [1, 6])


def ids(dtype="int64"):
    return fluid.data(f"ids_{dtype}", [4, 1], dtype)


def rows(width):
    return fluid.data("rows", [None, width], lod_level=1)


def ids3():
    return fluid.data("ids3", [4, 1, 1], "int64")


def run(*outputs, **feed):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(outputs))


# a call, and what it raises
REFUSED = {
    "mul columns": (lambda: layers.fc(matrix(), 3, num_flatten_dims=0), EnforceNotMet),
    "axis": (lambda: layers.elementwise_add(matrix(), matrix(), axis=-2), EnforceNotMet),
    "layer_norm epsilon": (lambda: layers.layer_norm(matrix(), epsilon=0.01), EnforceNotMet),
    "layer_norm axis": (lambda: layers.layer_norm(matrix(), begin_norm_axis=0), EnforceNotMet),
    "instance_norm epsilon": (lambda: layers.instance_norm(image(), epsilon=0.5), EnforceNotMet),
    "group_norm epsilon": (lambda: layers.group_norm(image(), 2, epsilon=2.0), EnforceNotMet),
    "lrn": (lambda: layers.lrn(image(), k=0.0), EnforceNotMet),
    "dropout": (lambda: layers.dropout(matrix(), 0.5, dropout_implementation="up"), EnforceNotMet),
    "dropout probability": (lambda: layers.dropout(matrix(), 1.5), EnforceNotMet),
    "shuffle_channel": (lambda: layers.shuffle_channel(image(), 0), (EnforceNotMet, TypeError)),
    "activation": (lambda: layers.fc(matrix(), 3, act={"type": "relu"}), TypeError),
    "tuple in a slot": (lambda: layers.pool2d((image(),), 2), TypeError),
    "filter_size": (lambda: layers.conv2d(image(), 4, [3.0, 3.0]), TypeError),
    "stride": (lambda: layers.conv2d(image(), 4, 3, stride=["2", "2"]), EnforceNotMet),
    "pool_size": (lambda: layers.pool2d(image(), [2.0, 2.0]), EnforceNotMet),
    "data_format": (lambda: layers.conv2d_transpose(image(), 4, filter_size=3, data_format=5), TypeError),
    "data_layout": (lambda: layers.batch_norm(image(), data_layout=None), TypeError),
    "out_shape": (lambda: layers.resize_bilinear(image(), out_shape=[0, 3]), AssertionError),
    "im2sequence": (lambda: layers.im2sequence(image("float64"), 2), TypeError),
    "inplace_abn": (lambda: layers.inplace_abn(image("float16")), TypeError),
    "squeeze of bool": (lambda: layers.squeeze(fluid.data("b", [1, 4], "bool"), [0]), TypeError),
    "clamp of nothing": (lambda: layers.clamp(None, min=0.5), TypeError),
    "clamp by an integer": (lambda: layers.clamp(matrix(), min=2), TypeError),
    "mish": (lambda: layers.mish(matrix(), np.int64(2)), TypeError),
    "dist": (lambda: layers.dist(matrix(), matrix(), "2"), TypeError),
    "smooth_l1": (lambda: layers.smooth_l1(matrix(), matrix(), inside_weight=matrix()), EnforceNotMet),
    "roi_pool": (lambda: layers.roi_pool(None, matrix()), TypeError),
    "axis beyond x": (lambda: layers.elementwise_add(matrix(), row(), axis=1), EnforceNotMet),
    "slice starts": (lambda: layers.slice(matrix(), [0], [0, 1], [2]), EnforceNotMet),
    "slice of a list": (lambda: layers.slice([1.0], [0], [0], [1]), TypeError),
    "stride of nothing": (lambda: layers.strided_slice(matrix(), [1], [0], [2], [0]), EnforceNotMet),
    "diag of a matrix": (lambda: layers.diag(matrix()), EnforceNotMet),
    "diag of float16": (lambda: layers.diag(fluid.data("d", [3], "float16")), TypeError),
    "crop": (lambda: layers.crop(image(), [2, 3]), EnforceNotMet),
    "expand_as": (lambda: layers.expand_as(matrix(), fluid.data("y", [6, 6])), EnforceNotMet),
    "full": (lambda: layers.full([2], 1.0, out=np.ones(2)), TypeError),
    "full of two": (lambda: layers.full([2], np.array([1.0, 2.0])), TypeError),
    "randperm": (lambda: layers.randperm(3, out=np.ones(3)), TypeError),
    "uniform_random": (lambda: layers.uniform_random([]), AssertionError),
    "name": (lambda: layers.create_tensor("float32", name=3), TypeError),
    "persistable": (lambda: layers.create_tensor("float32", persistable=matrix()), TypeError),
    "gru h_0": (lambda: layers.dynamic_gru(rows(9), 3, h_0=fluid.data("h", [None, 4])), AssertionError),
    "gru h_0 of integers": (lambda: layers.dynamic_gru(rows(9), 3, h_0=ids()), TypeError),
    "lstm h_0": (lambda: layers.dynamic_lstm(rows(12), 12, h_0=fluid.data("h", [None, 4])), AssertionError),
    "lstmp clip": (lambda: layers.dynamic_lstmp(rows(12), 12, 2, cell_clip=-1.0), AssertionError),
    "beam_search ids": (lambda: layers.beam_search(ids(), matrix(), "ids", matrix(), 2, 0), TypeError),
    "range": (lambda: layers.range(matrix(), matrix(), matrix(), "float32"), EnforceNotMet),
    "auc": (lambda: layers.auc(fluid.data("p", [4, 2]), ids(), num_thresholds=-1), EnforceNotMet),
    "crop shape": (lambda: layers.crop(image(), matrix()), EnforceNotMet),
    "crop_tensor shape": (lambda: layers.crop_tensor(image(), ids("int32")), EnforceNotMet),
    "multiplex": (lambda: layers.multiplex([matrix(), image()], ids("int32")), EnforceNotMet),
    "edit_distance": (lambda: layers.edit_distance(matrix("int64"), ids()), EnforceNotMet),
    "gather_tree": (lambda: layers.gather_tree(matrix("int64"), ids3()), EnforceNotMet),
    "chunk_eval": (lambda: layers.chunk_eval(ids(), ids3(), "IOB", 3), EnforceNotMet),
    "focal loss": (
        lambda: layers.sigmoid_focal_loss(matrix(), ids("int32"), fluid.data("n", [1, 1], "int32")),
        EnforceNotMet,
    ),
    "similarity_focus": (lambda: layers.similarity_focus(image("int32"), 1, [0]), TypeError),
    "teacher_student": (lambda: layers.teacher_student_sigmoid_loss(ids(), ids("float32")), TypeError),
    "prelu": (lambda: layers.prelu(image("float16"), "all"), TypeError),
    "logits of numpy": (lambda: layers.softmax_with_cross_entropy(np.ones((4, 6)), ids()), TypeError),
    "conv3d": (lambda: layers.conv3d([1.0], 2, 3), TypeError),
    "data_norm": (lambda: layers.data_norm([1.0]), TypeError),
    "psroi_pool": (lambda: layers.psroi_pool([1.0], matrix(), 2, 1.0, 2, 2), TypeError),
    "distribute_fpn": (lambda: layers.distribute_fpn_proposals([1.0], 2, 5, 4, 224), TypeError),
    "collect_fpn": (lambda: layers.collect_fpn_proposals([[1.0]], [matrix()], 2, 2, 5), TypeError),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error = REFUSED[name]
    with pytest.raises(error):
        call()


def filled(shape, dtype, value):
    return layers.fill_constant(shape, dtype, value)


# sizes, places and counts that come as tensors in a list, each given one of them
LISTS = {
    "reshape": lambda size: layers.reshape(filled([2, 6], "float32", 1.0), [size, 4]),
    "expand": lambda size: layers.expand(filled([2, 6], "float32", 1.0), [size, 1]),
    "slice": lambda size: layers.slice(filled([4, 6], "float32", 1.0), [0, 1], [size, 0], [4, 6]),
    "crop": lambda size: layers.crop_tensor(filled([4, 6], "float32", 1.0), [size, 3]),
    "split": lambda size: layers.split(filled([4, 6], "float32", 1.0), [size, 3], dim=1),
    "resize": lambda size: layers.resize_nearest(filled([1, 1, 2, 6], "float32", 1.0), out_shape=[size, 3]),
    "uniform": lambda size: layers.uniform_random([size, 2]),
}


@pytest.mark.parametrize("name", LISTS)
def test_numbers_in_lists(name):
    made = LISTS[name](filled([1], "int32", 3))
    run(*made if isinstance(made, list) else [made])
    for shape, dtype, text in (
        ([2], "int32", r"the shape \[2\], wanted \[1\]"),
        ([1], "float32", "must hold integers"),
    ):
        made = LISTS[name](filled(shape, dtype, 3))
        with pytest.raises(EnforceNotMet, match=text):
            run(*made if isinstance(made, list) else [made])


def test_a_stride_of_nothing_that_a_tensor_gives():
    cut = layers.strided_slice(filled([4], "float32", 1.0), [0], [0], [3], [filled([1], "int32", 0)])
    with pytest.raises(EnforceNotMet, match="must not be 0"):
        run(cut)


def test_arrays_of_one_number():
    assert run(layers.full([2], np.array([3.0])))[0].tolist() == [3.0, 3.0]
    assert sorted(run(layers.randperm(np.array([3])))[0]) == [0, 1, 2]


# attributes that 1.8.5 checks when an op is made: a value on either side of each limit
LIMITS = [
    ("elementwise_mul", "axis", -1, -2),
    ("box_coder", "axis", 1, 2),
    ("lstm", "gate_activation", "identity", "gelu"),
    ("batch_norm", "epsilon", 0.001, 0.0010001),
    ("group_norm", "epsilon", 1.0, 1.001),
    ("lrn", "alpha", 1e-9, 0.0),
    ("fake_quantize_abs_max", "bit_length", 16, 17),
    ("sequence_pool", "pooltype", "LAST", "MEAN"),
    ("space_to_depth", "blocksize", 2, 1),
    ("detection_map", "ap_type", "11point", "12point"),
]


@pytest.mark.parametrize("op, attr, good, bad", LIMITS)
def test_limits_of_attributes(op, attr, good, bad):
    assert broken_limit(get(op).attr_defs, {attr: good}) is None
    assert f"attribute {attr!r} is {bad!r}" in broken_limit(get(op).attr_defs, {attr: bad})


WARNED = {
    "float16": (lambda: layers.relu(matrix("float16")), "only support float16 in GPU now"),
    "actual_shape": (
        lambda: layers.resize_nearest(
            image(), out_shape=[3, 3], actual_shape=layers.fill_constant([2], "int32", 4)
        ),
        "actual_shape will be deprecated",
    ),
    "scale": (lambda: layers.layer_norm(matrix(), scale=False, param_attr="w"), "scale is True"),
    "shift": (lambda: layers.layer_norm(matrix(), shift=False, bias_attr="b"), "shift is True"),
}


@pytest.mark.parametrize("name", WARNED)
def test_warned(name):
    call, text = WARNED[name]
    with pytest.warns(UserWarning, match=text):
        call()


def test_lists_of_one_are_taken():
    assert layers.erf([matrix()]).shape == (4, 6)


def test_an_activation_has_no_attribute_of_its_layer():
    layers.conv2d(image(), 4, 3, act="leaky_relu")
    *_, op = fluid.default_main_program().global_block().ops
    assert op.type == "leaky_relu"
    assert not op.has_attr("use_cudnn")
    layers.conv2d(image(), 4, 3, act="relu")
    assert fluid.default_main_program().global_block().ops[-1].attr("use_cudnn") is True


def test_integers_are_raised_to_whole_powers():
    x = fluid.data("x", [3], "int64")
    (found,) = run(layers.pow(x, 2.7), x=np.array([0, 2, 3]))
    assert found.tolist() == [0, 4, 9]


def test_smooth_l1_reads_both_weights_or_none():
    x, y = (np.full((2, 3), value, "float32") for value in (1.0, 3.0))
    left, right = fluid.data("x", [2, 3]), fluid.data("y", [2, 3])
    (found,) = run(layers.smooth_l1(left, right, outside_weight=right), x=x, y=y)
    assert found.tolist() == [[4.5], [4.5]]


def test_a_vector_stays_as_it_is_but_takes_names():
    x = fluid.data("x", [6])
    assert layers.t(x) is x
    assert {"t_0.tmp_0", "t_0.tmp_1"} <= set(fluid.default_main_program().global_block().vars)
