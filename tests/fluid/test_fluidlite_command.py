"""`fluidlite`: one command for all others, its check of folders, and its doctor."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

import fluidlite as fluid
from fluidlite.cli import doctor
from fluidlite.cli.main import COMMANDS, main
from fluidlite.cli.scripts.names import paddle_names

SCRIPT = """\
import numpy as np
import paddle
x = paddle.to_tensor([1.])
loss = x.mean()
loss.backward()
opt = paddle.optimizer.SGD(0.1)
opt.step()
scheduler = paddle.optimizer.lr.StepDecay(0.1, 2)
scheduler.step()
print(loss.item())
paddle.fluid.layers.fcc(x)
"""


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["--help"]):
        assert main(given) == 0
        shown = capsys.readouterr().out
        assert all(f"\n  {name} " in shown for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fluidlite {fluid.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0 and "usage: fluidlite" in capsys.readouterr().out


def test_a_wrong_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chek"]) == 2
    assert capsys.readouterr().err == "fluidlite: error: there is no command 'chek'; did you mean 'check'?\n"


def test_run_is_the_old_command(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one.py").write_text("import sys, paddle\nprint('ran', *sys.argv[1:])\n")
    command = [sys.executable, "-m", "fluidlite.cli.main", "run", "one.py", "a", "--b"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "ran a --b\n"


def test_a_folder_is_read(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "dygraph.py").write_text(SCRIPT)
    (tmp_path / "static.py").write_text("import paddle.fluid as fluid\nx = fluid.data('x', [None, 2])\n")
    (tmp_path / "other.py").write_text("import torch\nloss.backward()\n")
    with paddle_names():
        assert main(["check", str(tmp_path)]) == 1
        shown = capsys.readouterr().out
        assert main(["check", str(tmp_path), "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert main(["check", str(tmp_path / "static.py")]) == 0
    assert [finding["line"] for finding in found] == [3, 5, 7, 10, 11]
    assert {finding["file"] for finding in found} == {str(tmp_path / "deep" / "dygraph.py")}
    assert "loss.backward() needs imperative mode: use optimizer.minimize(loss)" in shown
    assert "fluid.layers.fcc: not there; did you mean 'fc'?" in shown
    assert "3 files read, 1 with 5 lines that are not supported\n" in shown


def test_a_file_of_another_python(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.py").write_text("import paddle\nprint 'loss'\n")
    with paddle_names():
        assert main(["check", str(tmp_path)]) == 1
        assert "old.py:2  cannot be parsed by this Python" in capsys.readouterr().out
        assert main(["check", str(tmp_path / "none")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_the_doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    attempts = {name: attempt for name, attempt in doctor._ATTEMPTS.items() if name != "MPI"}
    monkeypatch.setattr(doctor, "_ATTEMPTS", attempts)
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "numpy" in shown and "interpreter and plan agree" in shown and "a page of" in shown

    def broken() -> str:
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "_ATTEMPTS", {"a device": broken})
    assert main(["doctor"]) == 1
    assert "a device  FAILED: OSError: no such device" in capsys.readouterr().out
