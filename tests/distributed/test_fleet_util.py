"""Tools of a fleet's workers, with the numbers of 1.8.5; saved models that are run once."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import ArgumentError
from fluidlite.incubate.fleet.base.role_maker import GeneralRoleMaker, UserDefinedRoleMaker
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler import fleet
from fluidlite.incubate.fleet.utils import utils
from fluidlite.incubate.fleet.utils.fleet_util import FleetUtil

METRICS = {"sq": 3.0, "ab": 2.0, "pr": 4.0, "q": 5.0, "clicked": 6.0, "total": 10.0}


class Twins(GeneralRoleMaker):
    """Two workers with the same values."""

    def worker_num(self) -> int:
        return 2

    def _all_reduce(self, input: Any, output: Any, mode: str = "sum") -> None:
        output[:] = 2 * input


@pytest.fixture
def util(monkeypatch: pytest.MonkeyPatch) -> FleetUtil:
    role = UserDefinedRoleMaker(worker_num=1, server_endpoints=["127.0.0.1:7"])
    monkeypatch.setattr(fleet, "_role_maker", role)
    return FleetUtil("transpiler")


def filled(**values: Any) -> fluid.core.Scope:
    """A scope with these values."""
    scope = fluid.core.Scope()
    for name, value in values.items():
        scope.var(name).get_tensor().set(value, fluid.CPUPlace())
    return scope


def counts() -> fluid.core.Scope:
    """A scope with small and large tables of counts, and the metrics."""
    rng = np.random.RandomState(0)
    large = {name: rng.randint(0, high, (1, 4096)).astype("int64") for name, high in (("p1", 50), ("n1", 90))}
    small = {"p": np.arange(8).reshape(1, 8), "n": np.arange(8)[::-1].reshape(1, 8).copy()}
    rest = {name: np.array([value], "float32") for name, value in METRICS.items()}
    return filled(**large, **small, **rest, z=np.zeros((1, 8), "int64"))


def test_auc(util: FleetUtil, capsys: pytest.CaptureFixture[str]) -> None:
    scope = counts()
    assert [util.get_global_auc(scope, *pair) for pair in ("pn", "zz", "pz")] == [0.875, 0.5, 0.5]
    util.print_global_auc(scope, "p", "n", "pre")
    assert util.get_global_auc(scope, "p", "nosuch") is None
    assert capsys.readouterr().out.splitlines() == ["pre global auc = 0.875", "not found auc bucket"]


def test_metrics(util: FleetUtil, capsys: pytest.CaptureFixture[str]) -> None:
    scope = counts()
    rest = [0.2, 0.5477225683874355, 0.6, 0.4, 1.5, 0.5, 10]
    for pos, neg, auc, bucket in (
        ("p", "n", 0.875, 0.0),
        ("p1", "n1", 0.5066980598650171, 0.5073514581787488),
    ):
        np.testing.assert_allclose(
            util.get_global_metrics(scope, pos, neg, *METRICS), [auc, bucket, *rest], rtol=1e-6
        )
    assert util.get_global_metrics(scope, "p", "n", "nosuch") == [None] * 9
    util.print_global_metrics(scope, "p", "n", *METRICS, print_prefix="hi")
    assert capsys.readouterr().out.splitlines() == [
        "not found sqrerr_name=nosuch",
        (
            "hi global AUC=0.875000 BUCKET_ERROR=0.000000 MAE=0.200000 RMSE=0.547723 Actural_CTR=0.600000 "
            "Predicted_CTR=0.400000 COPC=1.500000 MEAN Q_VALUE=0.500000 Ins number=10"
        ),
    ]


def test_sums_over_workers(util: FleetUtil, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = counts()
    monkeypatch.setattr(fleet, "_role_maker", Twins())
    assert util.get_global_metrics(scope, "p", "n", *METRICS)[-1] == 20
    mute = UserDefinedRoleMaker(worker_num=2, server_endpoints=["127.0.0.1:7"])
    monkeypatch.setattr(fleet, "_role_maker", mute)
    with pytest.raises(fluid.core.EnforceNotMet, match="GeneralRoleMaker"):
        util.get_global_auc(scope, "p", "n")


def test_zeros(util: FleetUtil) -> None:
    scope = filled(v=np.arange(4))
    util.set_zero("v", scope)
    assert np.array(scope.find_var("v").get_tensor()).tolist() == [0] * 4
    util.set_zero("v", scope, param_type="float32")
    assert np.array(scope.find_var("v").get_tensor()).dtype == "float32"


def test_modes(util: FleetUtil, capsys: pytest.CaptureFixture[str]) -> None:
    util.rank0_print("hello")
    assert capsys.readouterr().out == "hello\n"
    with pytest.raises(ValueError, match="mode"):
        FleetUtil("collective")
    with pytest.raises(RuntimeError, match="pslib"):
        FleetUtil().rank0_info("hello")
    with pytest.raises(RuntimeError, match="pslib"):
        util.save_model("out", 20190720, 1)
    with pytest.raises(AttributeError, match="nosuch"):
        util.nosuch()


# ---------------------------------------------------------------------- programs and models in files
def saved(folder: pathlib.Path, size: int = 2) -> str:
    """A saved model of two inputs; gives the name of what it computes."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, ids = fluid.data("x", [None, 4]), fluid.data("i", [None, 1], "int64", lod_level=1)
        rows = fluid.layers.reshape(fluid.embedding(ids, [10, 3]), [-1, 3])
        out = fluid.layers.fc(fluid.layers.concat([x, rows], 1), size)
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        executor.run(startup)
        fluid.io.save_inference_model(str(folder), ["x", "i"], [out], executor, main)
    utils.save_program(main, str(folder / "train"))
    return str(out.name)


def config(folder: pathlib.Path, fetch: str, **changes: Any) -> Any:
    """The argument of `check_vars_and_dump` and `check_two_programs`."""
    feed = {
        "feeded_vars_names": ["x", "i"],
        "feeded_vars_dims": [4, 1],
        "feeded_vars_types": [np.float32, np.int64],
        "feeded_vars_filelist": None,
        **changes,
    }
    return SimpleNamespace(
        feed_config=SimpleNamespace(**feed),
        fetch_config=SimpleNamespace(fetch_vars_names=[fetch]),
        dump_model_dir=str(folder),
        dump_program_filename="__model__",
        is_text_dump_program=False,
        batch_size=2,
        save_params_filename=None,
        train_prog_path=str(folder / "train"),
        is_text_train_program=False,
        pruned_prog_path=str(folder / "__model__"),
        is_text_pruned_program=False,
        draw=True,
        draw_out_name="drawn",
    )


def test_saved_models_run(util: FleetUtil, tmp_path: pathlib.Path) -> None:
    fetch = saved(tmp_path)
    (found,) = util.check_vars_and_dump(config(tmp_path, fetch))
    assert found.shape == (2, 2) and np.isfinite(found).all()
    for name, text in (("fx", "1 2 3 4\n5 6 7 8\n"), ("fi", "1\n3\n")):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("fx", "fi")]
    once, again = (
        util.check_vars_and_dump(config(tmp_path, fetch, feeded_vars_filelist=files))[0] for _ in "12"
    )
    np.testing.assert_array_equal(once, again)
    with pytest.raises(ValueError, match="'x' has shape"):
        util.check_vars_and_dump(config(tmp_path, fetch, feeded_vars_dims=[5, 1]))
    with pytest.raises(ValueError, match="nosuch"):
        util.check_vars_and_dump(config(tmp_path, "nosuch"))
    text = utils.program_type_trans(str(tmp_path), "__model__", False)
    given = config(tmp_path, fetch)
    feed, fetched = given.feed_config, given.fetch_config
    assert utils.check_saved_vars_try_dump(str(tmp_path), text, True, feed, fetched)[0].shape == (1, 2)


def test_programs_are_compared(util: FleetUtil, tmp_path: pathlib.Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, size in ((one, 2), (other, 5)):
        folder.mkdir()
        fetch = saved(folder, size)
    given = config(one, fetch)
    assert util.check_two_programs(given) and (one / "drawn.dot").exists()
    given.train_prog_path = str(other / "train")
    assert not util.check_two_programs(given)
    util.parse_program_proto(str(one / "train"), False, str(one))
    assert (one / "ops.log").read_text().startswith("ops:\n{'type': 'lookup_table_v2'")


def test_passes_over_a_day(util: FleetUtil) -> None:
    whole = util.get_online_pass_interval("{20190720..20190729}", "{0..23}", 5, 2, False)
    # as 1.8.5's, where its divisions give whole numbers
    assert len(whole) == 144 and whole[:2] == [["0000", "0005"], ["0010", "0015"]]
    hourly = util.get_online_pass_interval("20190720 20190721", "{0..23}", "30", "2", True)
    assert hourly[-1] == ["23", "23"] and len(hourly) == 24
    assert util.get_online_pass_interval("1", "8 9", 30, 3, False) == [["0800", "0830", "0900"]]
    for wrong in (("{1..2}", "$(reboot)", 5, 2), ("", "1", 5, 2), ("1", "1", 0, 2), ("1", "1", 5, 0)):
        with pytest.raises(ArgumentError):
            util.get_online_pass_interval(*wrong, False)
