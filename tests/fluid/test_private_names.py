"""Names that programs call as switches or hooks, although fluid never documented them."""

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.errors import UnsupportedError
from fluidlite.core import PaddleDType, PaddleTensor
from fluidlite.proto import data_feed_pb2, framework_pb2
from fluidlite.proto.profiler import profiler_pb2

core = fluid.core


# ------------------------------------------------------------------------------------------------ fluid.core
def test_switches_of_memory_set_flags(monkeypatch):
    names = [
        "FLAGS_eager_delete_tensor_gb",
        "FLAGS_memory_fraction_of_eager_deletion",
        "FLAGS_fast_eager_deletion_mode",
        "FLAGS_fuse_parameter_groups_size",
        "FLAGS_fuse_parameter_memory_size",
    ]
    before = fluid.get_flags(names)
    try:
        core._set_eager_deletion_mode(-1.0, 0.5, False)
        core._set_fuse_parameter_group_size(3)
        core._set_fuse_parameter_memory_size(16)
        assert list(fluid.get_flags(names).values()) == [-1.0, 0.5, False, 3, 16.0]
    finally:
        fluid.set_flags(before)
    with pytest.raises(ValueError, match="FLAGS_nope"):
        fluid.get_flags(["FLAGS_nope"])


def test_places_have_kinds():
    place = core.Place()
    place.set_place(core.CPUPlace())
    assert [kind._type() for kind in (core.CUDAPlace(0), core.CPUPlace(), core.CUDAPinnedPlace(), place)] == [
        0,
        1,
        2,
        1,
    ]
    assert place._equals(core.CPUPlace()) and core.CPUPlace()._equals(place)
    assert not place._equals(core.CUDAPlace(0))
    with pytest.raises(TypeError):
        place._equals(1)


def test_capsules_of_dlpack():
    tensor = fluid.create_lod_tensor(np.array([[1], [2]], "int64"), [[1, 1]], core.CPUPlace())
    capsule = tensor._to_dlpack()
    assert type(capsule).__name__ == "PyCapsule"
    np.testing.assert_array_equal(np.array(core.from_dlpack(capsule)), [[1], [2]])
    with pytest.raises(core.EnforceNotMet, match="not initialized"):
        core.LoDTensor()._to_dlpack()


def test_machine_and_compiled_module(capfd):
    assert isinstance(core.avx_supported(), bool)
    assert core.less_than_ver("2.9", "2.23") and not core.less_than_ver("2.23", "2.23")
    assert core.run_shell_command("echo one") == "one"
    assert core.run_shell_command("true") is None
    with pytest.raises(core.EnforceNotMet.__mro__[1], match="no such"):
        core.run_shell_command("echo no such >&2")
    core.load_dso(None)
    for refused in (core.get_dso_path, core.pre_load, core.load_op_library):
        with pytest.raises(UnsupportedError):
            refused("libpaddle.so")


def test_save_op_compatible_info_takes_a_program():
    core.save_op_compatible_info(fluid.Program().desc)
    with pytest.raises(TypeError):
        core.save_op_compatible_info("program")


def test_paddle_tensor_takes_a_dtype():
    tensor = PaddleTensor(np.array([1.0, 2.0], "float32"))
    tensor.dtype = PaddleDType.INT32  # the same bytes, as Paddle's buffer has them
    assert tensor.dtype == PaddleDType.INT32
    np.testing.assert_array_equal(tensor.as_ndarray(), np.array([1.0, 2.0], "float32").view("int32"))
    tensor.dtype = PaddleDType.INT64
    assert tensor.dtype == PaddleDType.INT64
    assert tensor.shape == [2]


# ------------------------------------------------------------------------------------------------ messages
def test_messages_of_other_modules():
    event = profiler_pb2.Event(type=profiler_pb2.Event.GPUKernel, name="mul", start_ns=1, end_ns=2)
    profile = profiler_pb2.Profile(events=[event], start_ns=0)
    again = profiler_pb2.Profile.FromString(profile.SerializeToString())
    assert again.events[0].name == "mul" and again.events[0].type == 1
    feed = data_feed_pb2.DataFeedDesc(name="MultiSlotDataFeed")
    feed.multi_slot_desc.slots.add(name="a", type="uint64")
    assert feed.batch_size == 32
    assert isinstance(feed.multi_slot_desc, data_feed_pb2.MultiSlotDesc)
    proto = framework_pb2.OpProto(type="mul", comment="")
    proto.inputs.add(name="X", comment="", dispensable=True)
    assert framework_pb2.OpProto.FromString(proto.SerializeToString()).inputs[0].dispensable
    program = framework_pb2.ProgramDesc()
    pair = program.op_compatible_map.pair.add(op_name="mul")
    pair.compatible_info.version, pair.compatible_info.type = "1.6.0", framework_pb2.CompatibleInfo.BUG_FIX
    assert pair.compatible_info.type == 3


# ------------------------------------------------------------------------------------------------ executor
def test_steps_of_a_run():
    x, w = fluid.data("x", [2, 3]), fluid.data("w", [2, 3])
    y = fluid.layers.scale(x, 2.0)
    loss = fluid.layers.mean(fluid.layers.fc(w, 1))
    ops, _ = fluid.optimizer.SGD(0.1).minimize(loss)
    executor, main = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
    feed = {"x": 1, "w": 2, "z": 3}
    rest, targets = executor._split_optimize_ops_in_fetch_list([y, "w", (ops, [])])
    assert targets == ops and rest == [y, "w"]
    for program in (main, fluid.CompiledProgram(main)):
        small = executor._prune_program(program, feed, [y], ops[:1])
        plain = small if program is main else small._program
        types = [op.type for op in plain.global_block().ops]
        assert (types[0], types[-1], types.count("sgd")) == ("scale", "sgd", 1)
        assert plain is not main
        with pytest.warns(UserWarning, match="The variable z is not found"):
            assert executor._update_feed(main, feed) == {"x": 1, "w": 2}
        with pytest.warns(UserWarning, match="The variable z is not found"):
            assert executor._update_feed(main, [feed, {}]) == [{"x": 1, "w": 2}, {}]
    whole = executor._prune_program(main, [feed], [loss], ops)
    assert [op.type for op in whole.global_block().ops][-2:] == ["sgd", "sgd"]


def test_fetch_handler_shows_an_example(capsys):
    fluid.executor.FetchHandler.help()
    assert "class FetchHandlerExample(FetchHandler)" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ readers
def test_loaders_have_a_base():
    x = fluid.data("x", [None, 3])
    loader = fluid.io.DataLoader.from_generator([x], 2, iterable=False)
    reader = fluid.io.PyReader([x], 2)
    for each in (loader, reader):
        assert isinstance(each, fluid.reader.DataLoaderBase)
        assert each() is each
    with pytest.raises(AssertionError, match="not iterable"):
        iter(loader())
    check = fluid.reader.DataLoaderBase._check_input_array
    np.testing.assert_array_equal(check([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    with pytest.raises(TypeError, match="different lengths"):
        check([[1], [1, 2]])


def test_order_of_data_is_a_switch_that_is_kept():
    keep = fluid.reader.keep_data_loader_order
    assert keep() is True
    try:
        keep(False)
        assert keep() is False
    finally:
        keep(True)
    for wrong in (("a",), (True, 1)):
        with pytest.raises(AssertionError):
            keep(*wrong)


def test_loader_is_reset_by_its_private_name():
    x = fluid.data("x", [None, 3])
    loader = fluid.io.DataLoader.from_generator([x], 2, iterable=False)
    loader.set_batch_generator(lambda: iter([[np.ones((1, 3), "float32")]] * 3))
    executor, y = fluid.Executor(fluid.CPUPlace()), fluid.layers.scale(x, 2.0)
    executor.run(fluid.default_startup_program())
    loader.start()
    executor.run(fetch_list=[y])
    loader._reset()
    loader.start()
    steps = 0
    with pytest.raises(core.EOFException):
        while True:
            executor.run(fetch_list=[y])
            steps += 1
    assert steps == 3
    loader.reset()


# ------------------------------------------------------------------------------------------------ the rest
def test_recompute_loads_nothing():
    optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
    with pytest.raises(NotImplementedError, match="load function is not supported"):
        optimizer.load({})


def test_switches_of_data_sets():
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    assert (dataset.merge_by_lineid, dataset.parse_ins_id) == (False, False)
    dataset.set_merge_by_lineid(2)
    assert (dataset.merge_by_lineid, dataset.parse_ins_id, dataset.merge_size) == (True, True, 2)
    dataset.set_generate_unique_feasigns(True, 5)
    assert (dataset.gen_uni_feasigns, dataset.local_shard_num) == (True, 5)
    dataset.set_parse_logkey(True)
    dataset.set_merge_by_sid(False)
    dataset.set_enable_pv_merge(True)
    assert (dataset.parse_logkey, dataset.merge_by_sid, dataset.enable_pv_merge) == (True, False, True)
    refused = {
        dataset.global_shuffle: (),
        dataset.preprocess_instance: (),
        dataset.postprocess_instance: (),
        dataset.get_pv_data_size: (),
        dataset.set_current_phase: (1,),
        dataset.generate_local_tables_unlock: (0, 8, 1, 1, 1),
    }
    for call, arguments in refused.items():
        with pytest.raises(UnsupportedError):
            call(*arguments)


# ------------------------------------------------------------------------------------------------ errors
def data(*shape, dtype="float32", name=None):
    return fluid.data(name or fluid.unique_name.generate("v"), list(shape), dtype)


LAYERS = fluid.layers
# what 1.8.5 refuses while a program is built, and with which error
REFUSED = {
    "attention of mixed types": (
        lambda: fluid.nets.scaled_dot_product_attention(
            data(2, 3, 4), data(2, 5, 4, dtype="float64"), data(2, 5, 6)
        ),
        TypeError,
    ),
    "fill_constant without dimensions": (lambda: LAYERS.fill_constant([], "float32", 1), AssertionError),
    "randint with an array": (lambda: LAYERS.randint(0, 5, np.array([2, 3])), TypeError),
    "scatter_nd_add: index too deep": (
        lambda: LAYERS.scatter_nd_add(data(2, 3), data(2, 3, dtype="int64"), data(2)),
        core.EnforceNotMet,
    ),
    "scatter_nd_add: another width": (
        lambda: LAYERS.scatter_nd_add(data(2, 3), data(4, 1, dtype="int64"), data(4, 2)),
        core.EnforceNotMet,
    ),
    "scatter_nd_add: another count": (
        lambda: LAYERS.scatter_nd_add(data(2, 3), data(4, 1, dtype="int64"), data(3, 3)),
        core.EnforceNotMet,
    ),
    "scatter_nd_add: another rank": (
        lambda: LAYERS.scatter_nd_add(data(2, 3), data(4, 1, dtype="int64"), data(4, 3, 1)),
        core.EnforceNotMet,
    ),
    "gather_nd: index too deep": (
        lambda: LAYERS.gather_nd(data(2, 3), data(2, 3, dtype="int64")),
        core.EnforceNotMet,
    ),
    "tril of a vector": (lambda: LAYERS.tril(data(4)), ValueError),
    "pow by integers": (lambda: LAYERS.pow(data(2, 3), data(1, dtype="int32")), TypeError),
    "prelu's mode": (lambda: LAYERS.prelu(data(2, 3), "x"), ValueError),
    "prelu of a vector by channel": (lambda: LAYERS.prelu(data(2), "channel"), AssertionError),
    "sums of other shapes": (lambda: LAYERS.sums([data(2, 3), data(4, 5)]), core.EnforceNotMet),
    "sums of another rank": (lambda: LAYERS.sums([data(2, 3), data(2, 3, 1)]), core.EnforceNotMet),
    "topk of none": (lambda: LAYERS.topk(data(2, 3), 0), core.EnforceNotMet),
    "bilinear of other rows": (
        lambda: LAYERS.bilinear_tensor_product(data(2, 3), data(4, 5), 2),
        core.EnforceNotMet,
    ),
    "dynamic_gru's h_0": (lambda: LAYERS.dynamic_gru(data(-1, 12), 4, h_0=data(-1, 5)), AssertionError),
    "dynamic_lstm's h_0": (
        lambda: LAYERS.dynamic_lstm(data(-1, 16), 16, h_0=data(-1, 5), c_0=data(-1, 4)),
        AssertionError,
    ),
    "minimize without a loss": (lambda: fluid.optimizer.SGD(0.1).minimize(None), AssertionError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_as_in_paddle(case):
    build, error = REFUSED[case]
    with pytest.raises(error):
        build()


def test_sums_take_unknown_dimensions_and_scatter_too():
    assert LAYERS.sums([data(2, 3), data(-1, 3)]).shape == (2, 3)
    unknown = LAYERS.scatter_nd_add(data(2, 3), data(-1, 1, dtype="int64"), data(-1, 3))
    assert unknown.shape == (2, 3)


def test_ops_without_kernels_have_no_device():
    with fluid.device_guard("gpu"), pytest.warns(UserWarning, match="conditional_block.* set device"):
        a = LAYERS.fill_constant([1], "float32", 1.0)
        LAYERS.cond(LAYERS.less_than(a, a), lambda: a, lambda: a)
    devices = {op.type: op.attr("op_device") for op in fluid.default_main_program().global_block().ops}
    assert devices["conditional_block"] == ""
    assert devices["select_input"] == "gpu"


# ------------------------------------------------------------------------------------------------ programs
def test_variables_may_be_renamed_while_they_are_listed():
    LAYERS.fc(data(2, 3, name="x"), 2)
    program = fluid.default_main_program()
    seen = []
    for var in program.list_vars():
        seen.append(var.name)
        if var.name == "fc_0.tmp_0":
            program.global_block()._rename_var("fc_0.tmp_0", "renamed")
            program.global_block().create_var(name="another")
    assert seen == ["x", "fc_0.w_0", "fc_0.tmp_0", "fc_0.b_0", "fc_0.tmp_1"]


@pytest.mark.parametrize(
    "clip",
    [
        fluid.clip.GradientClipByValue(1.0),
        fluid.clip.GradientClipByNorm(1.0),
        fluid.clip.GradientClipByGlobalNorm(1.0),
    ],
)
def test_clips_drop_parameters_without_a_gradient(clip):
    x = data(2, 3)
    used, unused = (LAYERS.fc(x, 1, param_attr=name, bias_attr=False) for name in "ab")
    pairs = fluid.backward.append_backward(LAYERS.mean(used))
    without = fluid.default_main_program().global_block().var("b")
    found = clip([*pairs, (without, None)])
    assert [param.name for param, _ in found] == ["a"]
    assert unused.shape == (2, 1)


def test_int64_shapes_are_cast_for_fill_constant():
    LAYERS.fill_constant(data(2, dtype="int64", name="shape"), "float32", 1.0)
    LAYERS.fill_constant(data(2, dtype="int32", name="short"), "float32", 1.0)
    LAYERS.fill_constant([data(1, dtype="int64", name="dim"), 2], "float32", 1.0)
    ops = [(op.type, op.input_arg_names) for op in fluid.default_main_program().global_block().ops]
    assert ops == [
        ("cast", ["shape"]),
        ("fill_constant", ["cast_0.tmp_0"]),
        ("fill_constant", ["short"]),
        ("cast", ["dim"]),
        ("fill_constant", []),
        ("fill_constant", ["cast_1.tmp_0", "fill_constant_3.tmp_0"]),
    ]


def test_value_of_a_global_variable_may_be_an_array_of_one():
    LAYERS.create_global_var([1], np.full(1, 3.0), "float32")
    (op,) = fluid.default_startup_program().global_block().ops
    assert (op.type, op.attr("value")) == ("fill_constant", 3.0)
    with pytest.raises(TypeError):
        LAYERS.create_global_var([2], np.ones(2), "float32")


def test_views_are_equal_where_they_show_the_same():
    LAYERS.fc(data(2, 3, name="x"), 2)
    program = fluid.default_main_program()
    copy = program.clone()
    assert program.desc == program.desc and program.desc != copy.desc
    assert program.global_block().ops[0].desc == program.desc.block(0).op(0)
    assert program.global_block().ops[0].desc != copy.global_block().ops[0].desc
    assert program.desc.serialize_to_string() == copy.desc.serialize_to_string()
