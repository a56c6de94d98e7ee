"""The steps of a run under fluid's names: taken one after another they give what `Executor.run` gives."""

from __future__ import annotations

import copy
import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import compiler, core, executor, layers

# both optimizers move `w`
pytestmark = pytest.mark.filterwarnings("ignore:minimize")

X = np.arange(12, dtype="float32").reshape(4, 3) / 10
FEED = {"x": X}


def build() -> SimpleNamespace:
    """A hidden layer with two losses, of which each has an optimizer; the startup program has run."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 3])
        hidden = layers.fc(x, 2, param_attr=constant("w"), bias_attr=False)
        losses = [
            layers.mean(layers.fc(hidden, 1, param_attr=constant(name), bias_attr=False)) for name in "ab"
        ]
        for var in (hidden, *losses):
            var.persistable = True
        opts = [fluid.optimizer.SGD(0.5).minimize(loss) for loss in losses]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup, scope=scope)
    return SimpleNamespace(
        main=main, startup=startup, scope=scope, exe=exe, hidden=hidden, losses=losses, opts=opts
    )


def constant(name: str) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(0.5))


def compiled(net: SimpleNamespace, devices: int) -> Any:
    return fluid.CompiledProgram(net.main).with_data_parallel(
        net.losses[0].name, places=[fluid.CPUPlace()] * devices
    )


def values(net: SimpleNamespace) -> dict[str, Any]:
    return {name: np.array(net.scope.find_var(name).get_tensor()).tolist() for name in ("w", "a", "b")}


def step_by_step(net: SimpleNamespace, desc_runner: Any) -> list[Any]:
    program = net.exe._add_feed_fetch_ops(
        program=net.main,
        feed=FEED,
        fetch_list=[net.losses[0], net.hidden.name],
        feed_var_name="feed",
        fetch_var_name="fetch",
    )
    assert [op.type for op in program.global_block().ops][:: len(program.global_block().ops) - 1] == [
        "feed",
        "fetch",
    ]
    net.exe._feed_data(program, FEED, "feed", net.scope)
    desc_runner.run(program.desc, net.scope, 0, True, True, ["fetch"])
    found = net.exe._fetch_data([net.losses[0], net.hidden], "fetch", net.scope)
    return [np.array(tensor) for tensor in found]


@pytest.mark.parametrize("own", [True, False])
def test_feeds_and_fetches_through_the_scope(own: bool) -> None:
    taken, run = build(), build()
    for _ in range(3):
        found = step_by_step(taken, taken.exe._default_executor if own else core.Executor(fluid.CPUPlace()))
        wanted = run.exe.run(run.main, feed=FEED, fetch_list=[run.losses[0], run.hidden], scope=run.scope)
        for pair in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(*pair)
    assert values(taken) == values(run)
    assert not any(op.type in ("feed", "fetch") for op in taken.main.global_block().ops)


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_each_way_of_running_is_a_step(devices: int) -> None:
    by_hand, run = build(), build()
    for _ in range(2):
        programs = [compiled(net, devices) if devices else net.main for net in (by_hand, run)]
        shared = {"scope": by_hand.scope, "return_numpy": True, "fetch_var_name": "fetch"}
        if devices:
            programs[0]._compile(by_hand.scope, by_hand.exe.place)
            found = by_hand.exe._run_parallel(
                programs[0], feed=FEED, fetch_list=[by_hand.losses[0]], return_merged=True, **shared
            )
        else:
            found = by_hand.exe._run_program(
                programs[0],
                feed=FEED,
                fetch_list=[by_hand.losses[0]],
                feed_var_name="feed",
                use_program_cache=False,
                **shared,
            )
        wanted = run.exe._run_impl(
            program=programs[1],
            feed=FEED,
            fetch_list=[run.losses[0]],
            feed_var_name="feed",
            fetch_var_name="fetch",
            scope=run.scope,
            return_numpy=True,
            use_program_cache=False,
            return_merged=True,
            use_prune=False,
        )
        np.testing.assert_array_equal(found, wanted)
    assert values(by_hand) == values(run)


@pytest.mark.parametrize("devices", [1, 2])
def test_devices_are_fed_and_run_by_hand(devices: int) -> None:
    by_hand, run = build(), build()
    places = [fluid.CPUPlace()] * devices
    steps = compiled(by_hand, devices)._compile_data_parallel(places, use_cuda=False, scope=by_hand.scope)
    program = compiled(run, devices)
    tensor = fluid.create_lod_tensor(X, [], fluid.CPUPlace())
    assert steps.device_count() == len(steps.local_scopes()) == devices
    names = [run.losses[0].name, run.hidden.name]
    feeds: list[Any] = [{"x": tensor}, [{"x": tensor}] * devices]
    for feed, merged in zip(feeds, (True, False), strict=True):
        if merged:
            steps.feed_and_split_tensor_into_local_scopes(feed)
        else:
            steps.feed_tensors_into_local_scopes(feed)
        found = steps.run(names, merged)._move_to_list()
        wanted = run.exe.run(
            program, feed=feed, fetch_list=names, scope=run.scope, return_numpy=False, return_merged=merged
        )
        for pair in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(*map(np.array, pair))
    assert not steps._need_create_local_exe_scopes()
    steps.drop_local_exe_scopes()
    assert steps._need_create_local_exe_scopes()
    with pytest.raises(AssertionError, match="places type can only be list or tuple"):
        compiled(run, 2)._compile_data_parallel(fluid.CPUPlace(), scope=run.scope)


def test_a_predictor_is_a_way_of_running(tmp_path: Path) -> None:
    net = build()
    net.hidden.persistable = False
    with fluid.scope_guard(net.scope):
        fluid.io.save_inference_model(str(tmp_path), ["x"], [net.hidden], net.exe, net.main)
    config = core.AnalysisConfig(str(tmp_path))
    config.disable_gpu()
    program = fluid.CompiledProgram(net.main)._with_inference_optimize(config)
    fed = [core.PaddleTensor(X)]
    wanted = X @ np.full((3, 2), 0.5, "float32")
    by_hand = net.exe._run_inference(program._compile_inference(), fed)
    for found in (by_hand, net.exe.run(program, feed=fed, scope=net.scope)):
        np.testing.assert_allclose(found[0].as_ndarray(), wanted)
    (dense,) = net.exe.run(program, feed=FEED, fetch_list=[net.hidden], scope=net.scope)
    np.testing.assert_allclose(dense, wanted)


def test_descriptions_run_with_and_without_a_scope_of_their_own() -> None:
    net, scope = build(), core.Scope()
    runner = core.Executor(fluid.CPUPlace())
    runner.run(net.startup.desc, scope, 0, False, True, [])
    scope.var("x").get_tensor().set(X, fluid.CPUPlace())
    prepared = runner.prepare(net.main.desc, 0, [], False)
    runner.run_prepared_ctx(prepared, scope, False, True, False)
    assert scope.find_var("w@GRAD").get_tensor().shape() == [3, 2]
    other = core.Scope()
    runner.create_variables(net.main.desc, other.new_scope(), 0)
    assert other.find_var("w") is not None and other.find_var("w@GRAD") is None
    program = net.exe._add_feed_fetch_ops(net.main, FEED, [net.hidden], "feed", "fetch")
    with pytest.raises(core.EnforceNotMet, match="'feed' holds 0 tensors, but none at index 0"):
        runner.run(program.desc, net.scope, 0, True, True, [])


def test_what_steps_are_given_is_checked() -> None:
    net = build()
    with pytest.raises(AssertionError, match="Wrong type for fetch_list"):
        net.exe._add_feed_fetch_ops(net.main, FEED, [net.opts[0][0][0]], "feed", "fetch")
    with pytest.warns(UserWarning, match="The variable zz is not found in program"):
        net.exe._add_feed_fetch_ops(net.main, {"zz": X}, [], "feed", "fetch")
    program = net.exe._add_feed_fetch_ops(net.main, FEED, [], "feed", "fetch")
    again = net.exe._add_feed_fetch_ops(program, FEED, [], "feed", "fetch")
    assert [op.type for op in again.global_block().ops].count("feed") == 1
    with pytest.raises(ValueError, match="received fed shape"):
        net.exe._feed_data(program, {"x": X[:, :2]}, "feed", net.scope)
    with pytest.raises(KeyError):
        net.exe._feed_data(program, {}, "feed", net.scope)
    for wrong, error in ((None, AssertionError), ("a", TypeError)):
        with pytest.raises(error):
            net.exe._run_program(wrong, {}, [], "feed", "fetch", net.scope, True, False)


def test_keys() -> None:
    net = build()
    key = executor._get_program_cache_key
    assert key([{"x": 1}, {"y": 2}], ["a", net.hidden]) == f"['x', 'y', 'a', '{net.hidden.name}']"
    assert key(None, [net.opts[0]]) == str([",".join(str(id(op)) for op in net.opts[0][0])])
    assert executor._get_strong_program_cache_key(net.main, FEED, []) == f"{id(net.main)}['x']"
    assert executor.dtype_is_compatible_with("float32", core.VarDesc.VarType.FP32)
    assert not executor.dtype_is_compatible_with(np.float32, "int64")


def test_programs_are_kept_for_later_runs() -> None:
    net = build()
    key = executor._get_strong_program_cache_key(net.main, FEED, [net.losses[0]])
    assert net.exe._get_program_cache(key) is None
    ran = {"feed": FEED, "fetch_list": [net.losses[0]], "scope": net.scope}
    net.exe.run(net.main, **ran)
    assert not net.exe.program_caches
    net.exe.run(net.main, use_program_cache=True, **ran)
    kept = net.exe._get_program_cache(key)
    assert [op.type for op in kept.global_block().ops].count("fetch") == 1
    assert net.exe._get_ctx_cache(key) is not None and net.exe._get_scope_cache(key) is not None
    net.exe.run(net.main, use_program_cache=True, **ran)
    assert net.exe._get_program_cache(key) is kept
    net.exe._add_program_cache("mine", net.main)
    assert net.exe._get_program_cache("mine") is net.main


FETCHES: dict[str, Any] = {
    "a loss": lambda net: [net.losses[0]],
    "a loss with its update": lambda net: [net.losses[0], net.opts[0]],
    "the other loss with its update": lambda net: [net.losses[1], net.opts[1]],
    "both updates": lambda net: [net.losses[1], net.opts[1], net.opts[0]],
    "an update alone": lambda net: [net.opts[0]],
    "nothing": lambda net: [],
}
# the parameters of the two losses that such a run moves
MOVED = {
    "a loss": {"a", "b"},
    "a loss with its update": {"a"},
    "the other loss with its update": {"b"},
    "both updates": {"a", "b"},
    "an update alone": {"a"},
    "nothing": {"a", "b"},
}
# and the losses that it computes, as 1.8.5 does
MADE = {"a loss": [True, False], "a loss with its update": [True, False], "nothing": [False, False]}


@pytest.mark.parametrize("devices", [0, 1, 2])
@pytest.mark.parametrize("what", FETCHES)
def test_pruned_runs(what: str, devices: int) -> None:
    net = build()
    program = compiled(net, devices) if devices else net.main
    for _ in range(2):
        net.exe.run(program, feed=FEED, fetch_list=FETCHES[what](net), scope=net.scope, use_prune=True)
    assert {name for name in "ab" if not np.allclose(values(net)[name], 0.5)} == MOVED[what]
    held = [net.scope.find_var(loss.name) for loss in net.losses]
    made = [var is not None and var.is_initialized() for var in held]
    assert made == MADE.get(what, made)
    assert len(net.exe.pruned_program_caches) == 1
    assert len(net.exe.pruned_program_scope_caches) == (devices > 0)


@pytest.mark.parametrize("index", [0, 1])
def test_other_optimizers_stand_still(index: int) -> None:
    """`w` is moved by the named optimizer alone, whether that stands before or behind the other one."""
    net = build()
    fetched = [net.losses[index], net.opts[index]]
    net.exe.run(net.main, feed=FEED, fetch_list=fetched, scope=net.scope)
    # the loss is the mean of x w a, and a is 0.5
    slope = X.mean(0)[:, None] * 0.5
    np.testing.assert_allclose(values(net)["w"], 0.5 - 0.5 * np.tile(slope, 2), rtol=1e-5)


@pytest.mark.parametrize("options", ["penalty", "clipping", "schedule", "moments"])
def test_what_stands_between_gradient_and_update_is_kept(options: str) -> None:
    """1.8.5 prunes penalties and clipping away, and with the latter the whole backward pass."""
    found = []
    for prune in (False, True):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss = layers.mean(layers.fc(fluid.data("x", [None, 3]), 2, param_attr=constant("w")))
            opt = {
                "penalty": lambda: fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.3)),
                "clipping": lambda: fluid.optimizer.SGD(
                    0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1)
                ),
                "schedule": lambda: fluid.optimizer.SGD(layers.exponential_decay(0.1, 1, 0.5)),
                "moments": lambda: fluid.optimizer.Adamax(0.1),
            }[options]().minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup, scope=scope)
        for _ in range(3):
            exe.run(main, feed=FEED, fetch_list=[loss, opt] if prune else [loss], scope=scope)
        found.append(np.array(scope.find_var("w").get_tensor()))
    np.testing.assert_array_equal(*found)
    assert not np.allclose(found[0], 0.5)


def test_one_pruned_program_for_each_kind_of_run(monkeypatch: pytest.MonkeyPatch) -> None:
    net = build()
    made: list[Any] = []
    original = fluid.Executor._prune_program

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        made.append(args)
        return original(self, *args, **options)

    monkeypatch.setattr(fluid.Executor, "_prune_program", counted)
    program = compiled(net, 2)
    for fetches in ([net.losses[0], net.opts[0]], [net.losses[1], net.opts[1]]) * 3:
        net.exe.run(net.main, feed=FEED, fetch_list=fetches, scope=net.scope)
        net.exe.run(program, feed=FEED, fetch_list=fetches, scope=net.scope)
    assert len(made) == len(net.exe.pruned_program_caches) == 4
    with fluid.program_guard(net.main):
        layers.scale(net.hidden, 2.0)
    net.exe.run(net.main, feed=FEED, fetch_list=[net.losses[0], net.opts[0]], scope=net.scope)
    assert len(made) == 5 and len(net.exe.pruned_program_caches) == 4


def test_training_goes_on_between_pruned_programs() -> None:
    pruned, plain = build(), build()
    program = compiled(pruned, 2)
    order = (0, 1, 1, 0, 1)
    for index in order:
        pruned.exe.run(
            program, feed=FEED, fetch_list=[pruned.losses[index], pruned.opts[index]], scope=pruned.scope
        )
        plain.exe.run(
            plain.main, feed=FEED, fetch_list=[plain.losses[index], plain.opts[index]], scope=plain.scope
        )
    for name, value in values(plain).items():
        np.testing.assert_allclose(values(pruned)[name], value, rtol=1e-5)


def test_feeds_that_a_pruned_program_does_not_need_are_told() -> None:
    net = build()
    feed = {"x": X, "zz": X}
    pruned = net.exe._prune_program(net.main, feed=FEED, fetch_list=[net.hidden], optimize_ops=[])
    with pytest.warns(UserWarning, match="The variable zz is not found in program"):
        assert list(net.exe._update_feed(pruned, feed)) == ["x"]
    with pytest.warns(UserWarning, match="The variable zz is not found in program"):
        assert [list(part) for part in net.exe._update_feed(pruned, [feed, FEED])] == [["x"], ["x"]]
    program = copy.copy(compiled(net, 2))
    assert net.exe._prune_program(program, FEED, [net.hidden], net.opts[0][0]) is program
    assert program._program is not net.main and program._executor is None


def test_what_is_kept_goes_with_its_program() -> None:
    net = build()
    exe, program = net.exe, net.main.clone()
    parallel = fluid.CompiledProgram(program).with_data_parallel(
        net.losses[0].name, places=[fluid.CPUPlace()] * 2
    )
    for one in (program, parallel):
        for prune in (False, True):
            exe.run(
                one,
                feed=FEED,
                fetch_list=[net.losses[0].name],
                scope=net.scope,
                use_prune=prune,
                use_program_cache=True,
            )
    held = weakref.ref(program), weakref.ref(parallel)
    del program, parallel, one
    # twice: a pruned program goes after the one that it was made of
    gc.collect()
    gc.collect()
    assert [found() for found in held] == [None, None]
    assert not exe.program_caches and not exe.pruned_program_caches
    assert not exe.pruned_program_scope_caches and not exe._made_of


def test_a_compiled_program_says_what_it_is_bound_to() -> None:
    net = build()
    program = fluid.CompiledProgram(net.main)
    assert (program._compiled, program._executor, program._places) == (False, None, None)
    place = net.exe.place
    assert program._compile(net.scope, place) is program._compile(net.scope, place) is program
    assert program._compiled and program._executor.device_count() == 1 and program._places == [place]
    with pytest.raises(ValueError, match="different scope"):
        program._compile(fluid.Scope(), place)
    assert program._get_places(place, None) == fluid.cpu_places()
    with pytest.raises(AssertionError, match="Place type not match"):
        program._get_places(place, [fluid.CUDAPinnedPlace()])
    with pytest.raises(AssertionError, match="AnalysisConfig"):
        fluid.CompiledProgram(net.main)._with_inference_optimize(None)
    with pytest.raises(NotImplementedError):
        program._with_distributed()


def test_functions_around_a_compiled_program() -> None:
    net = build()
    assert not compiler._is_pserver_mode(net.main)
    assert compiler._has_backward_op(core.Graph(net.main.desc))
    assert compiler._has_optimize_op(net.main.global_block())
    assert not compiler._has_optimizer_in_control_flow(net.main)
    program = net.exe._add_feed_fetch_ops(net.main, FEED, [], "feed", "fetch")
    compiler._prune_feed_ops(program)
    assert [op.type for op in program.global_block().ops] == [op.type for op in net.main.global_block().ops]
    assert compiler._place_obj(net.exe.place).is_cpu_place()
