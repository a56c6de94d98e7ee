"""Deployments in the style of published ones: scripts run unmodified, with the results of 2.6.2."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tarfile
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fluidlite.cli.run import main

HOME = pathlib.Path(__file__).parents[1] / "golden" / "deployed_2x"
RESULTS: dict[str, Any] = json.loads((HOME / "results.json").read_text())
# how many switches of the inference library a script sets that mean nothing here
SWITCHES = {"faces": 3}
# the sizes of inputs that mean something
SHAPES = {"det": "x=1,3,64,96", "seg": "x=1,3,64,96", "rec": "x=2,3,32,100", "matting": "img=1,3,64,96"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("deployed")
    for packed in HOME.glob("*.tar.xz"):
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
    return folder


def assert_alike(ours: Any, theirs: Any, where: str) -> None:
    """Numbers within the rounding of float32, all else equal."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            assert_alike(ours[name], value, f"{where}/{name}")
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], dict | str):
        assert len(ours) == len(theirs), where
        for place, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_alike(*pair, f"{where}[{place}]")
    elif isinstance(theirs, str):
        assert ours == theirs, where
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=where)


@pytest.mark.parametrize("name", RESULTS)
def test_a_script(name: str, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    script = HOME / "scripts" / f"{name}.py"
    command = [sys.executable, "-m", "fluidlite", str(script), str(models)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    # switches that change nothing here are accepted, and said once
    said = [line for line in ran.stderr.splitlines() if not line.startswith(" ")]
    assert ran.returncode == 0 and all("changes nothing here" in line for line in said), ran.stderr
    assert len(said) == SWITCHES.get(name, 0), ran.stderr
    assert_alike(json.loads(ran.stdout), RESULTS[name], name)
    for picture in tmp_path.glob("*.png"):
        with Image.open(picture) as shown:
            assert shown.size == (192, 128)


EXPORTED = ["det", "cls", "rec", "seg", "ctr", "text", "yolo", "tag"]
EXPORTED += ["face", "points", "pico", "matting", "series", "translate"]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_model_as_onnx(
    name: str, models: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--model", str(models / name), "--to-onnx", str(tmp_path / "model.onnx"), "--check"]
    if name == "yolo":
        image = np.random.RandomState(0).uniform(-1, 1, (2, 3, 64, 96)).astype("float32")
        sizes = np.array([[64, 96]] * 2, "float32")
        np.savez(tmp_path / "in.npz", image=image, im_shape=sizes, scale_factor=sizes / 64)
        argv += ["--input", str(tmp_path / "in.npz")]
    if name == "tag":
        np.savez(tmp_path / "in.npz", ids=np.arange(24).reshape(3, 8), lengths=np.array([5, 1, 7]))
        argv += ["--input", str(tmp_path / "in.npz")]
    argv += ["--shape", SHAPES[name]] if name in SHAPES else []
    assert main(argv) == 0, capsys.readouterr()


@pytest.mark.parametrize("name", ["det", "cls", "seg", "ctr", "text"])
def test_a_model_for_1x(name: str, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    argv = ["--model", str(models / name), "--convert", "1.x", "--output", str(tmp_path / "one"), "--check"]
    assert main(argv) == 0
