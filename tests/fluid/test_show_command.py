"""`fluidlite-show`: what it takes, and where the page goes."""

from __future__ import annotations

import pathlib
import webbrowser

import pytest

import fluidlite as fluid
from fluidlite.cli.show import main
from fluidlite.saving.inference import save_inference_model

NET = """import fluidlite as fluid
x = fluid.data("x", [None, 20])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
def build():
    fluid.layers.fc(fluid.data("z", [None, 3]), 4)
"""
RUN = "fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(NET + RUN, encoding="utf8")
    return tmp_path


def page_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The page that the command writes to stdout."""
    assert main([*argv, "--output", "-"]) == 0
    return capsys.readouterr().out


def save_model(folder: pathlib.Path) -> None:
    main_program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main_program, startup), fluid.scope_guard(fluid.core.Scope()):
        out = fluid.layers.softmax(fluid.layers.fc(fluid.data("image", [None, 6]), 2))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        save_inference_model(str(folder / "saved"), ["image"], [out], exe, main_program)


def test_every_kind_of_target(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(folder)
    (folder / "nets.py").write_text(NET, encoding="utf8")
    assert "sgd" in page_of(capsys, "train.py")
    assert "fc_0.w_0" in page_of(capsys, "nets:build")
    assert "softmax" in page_of(capsys, "saved") and "softmax" in page_of(capsys, "saved/__model__")
    (folder / "saved/__model__").rename(folder / "saved/net.pdmodel")
    assert "softmax" in page_of(capsys, "saved")
    job = page_of(capsys, "train.py", "--mode", "pserver", "--trainers", "3", "--pservers", "2")
    assert '"pserver1"' in job and '"trainer2"' in job


def test_without_a_display_the_path_is_printed(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert main(["train.py"]) == 0
    assert "<html" in pathlib.Path(capsys.readouterr().out.strip()).read_text(encoding="utf8")
    assert main(["train.py", "--output", "net.html"]) == 0
    assert capsys.readouterr().out == "net.html\n" and (folder / "net.html").exists()


def test_with_a_display_the_browser_opens_it(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) is None)
    assert main(["train.py"]) == 0
    assert capsys.readouterr().out == "" and opened[0].startswith("file://") and opened[0].endswith(".html")
    assert main(["train.py", "--no-browser"]) == 0
    assert capsys.readouterr().out.endswith("index.html\n") and len(opened) == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["train.pz"], "cannot read train.pz: No such file or directory; did you mean 'train.py'?"),
        (["train.py", "--trainers", "2"], "--trainers, --pservers and similar options describe a job"),
        (["train.py", "--mode", "pserfer"], "did you mean 'pserver'?"),
        (["train.py", "other.py"], "give only one TARGET"),
        (["train.py", "--outptu", "x"], "did you mean '--output'?"),
        (["train.py", "--output", "train.py/x.html"], "cannot write train.py/x.html: "),
        ([], "the following arguments are required: TARGET"),
    ],
)
def test_mistakes_are_one_line(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and error.startswith("fluidlite-show: error: ")
