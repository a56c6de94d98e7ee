"""Saved models as people have them: folders, usual names, archives; and shapes in summaries."""

from __future__ import annotations

import pathlib
import tarfile
import zipfile

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.cli.errors import UsageError
from fluidlite.cli.models import load_model, run_model
from fluidlite.cli.summary import summary_text
from fluidlite.saving.converting import with_shapes

MODELS = pathlib.Path(__file__).parents[1] / "golden" / "models_2x"


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a model of fluid, a file for each parameter."""
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [None, 4])
        y = fluid.layers.fc(fluid.layers.fc(x, 3, act="relu"), 2)
        exe.run(startup)
        fluid.io.save_inference_model(str(tmp_path / "saved"), ["x"], [y], exe, main)
    return tmp_path / "saved"


def results(source: pathlib.Path) -> np.ndarray:
    with fluid.scope_guard(fluid.Scope()):
        model = load_model(str(source))
        return np.asarray(next(iter(run_model(model, {"x": np.ones((2, 4), "float32")}).values())))


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz"])
def test_archives(saved: pathlib.Path, ending: str) -> None:
    archive = saved.with_name(f"m{ending}")
    if ending == ".zip":
        with zipfile.ZipFile(archive, "w") as package:
            for path in saved.iterdir():
                package.write(path, f"deep/er/{path.name}")
    else:
        with tarfile.open(
            archive, "w:" + ending.removeprefix(".tar").removeprefix(".tgz").lstrip(".")
        ) as made:
            made.add(saved, "deep/er")
    np.testing.assert_array_equal(results(archive), results(saved))


def test_usual_names(saved: pathlib.Path, tmp_path: pathlib.Path) -> None:
    wanted = results(saved)
    (saved / "__model__").rename(saved / "model")
    np.testing.assert_array_equal(results(saved), wanted)
    for name in ("inference", "other"):
        for kind in ("pdmodel", "pdiparams"):
            (tmp_path / f"{name}.{kind}").write_bytes((MODELS / f"classifier.{kind}").read_bytes())
    assert [var.name for var in load_model(str(tmp_path)).feeds] == ["img", "ids"]


def test_a_parameter_that_is_missing_is_named(saved: pathlib.Path) -> None:
    (saved / "fc_1.b_0").unlink()
    with pytest.raises(UsageError, match="cannot open .*/fc_1.b_0: the model's files are incomplete"):
        load_model(str(saved))


@pytest.mark.parametrize("name", ["../out", "/tmp/out"])
def test_names_that_lead_out(tmp_path: pathlib.Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as package:
        package.writestr(name, b"x")
    with pytest.raises(UsageError, match="leads out of the archive's folder"):
        load_model(str(tmp_path / "m.zip"))


def test_archives_that_grow(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("__model__", bytes(60 << 20))
    with pytest.raises(UsageError, match="unpacks to more than 50 times its size"):
        load_model(str(tmp_path / "m.zip"))


def test_damaged_archives(tmp_path: pathlib.Path) -> None:
    for ending in ("zip", "tar", "tgz"):
        (tmp_path / f"m.{ending}").write_bytes(b"PK\3\4 and nothing else")
        with pytest.raises(UsageError, match="is damaged, or not an archive"):
            load_model(str(tmp_path / f"m.{ending}"))


def test_an_archive_of_two_models(saved: pathlib.Path) -> None:
    with zipfile.ZipFile(saved.with_name("m.zip"), "w") as package:
        for folder in "ab":
            package.write(saved / "__model__", f"{folder}/__model__")
    with pytest.raises(UsageError, match="holds 2 folders with a model"):
        load_model(str(saved.with_name("m.zip")))


def test_shapes_that_are_given(saved: pathlib.Path) -> None:
    program = load_model(str(MODELS / "classifier")).program
    text = summary_text(with_shapes(program, {"img": [3, 1, 8, 8], "ids": [3, 3]}))
    assert "batch_norm_0              batch_norm, relu            [3, 4, 8, 8]" in text
    assert "None" not in text and "None" in summary_text(program)
