"""`fluidlite`: one command for all others, its check of folders, and its doctor."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import fluidlite as fluid
from fluidlite.cli import doctor
from fluidlite.cli.docs import page_names
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
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and "usage: fluidlite" in shown
    # at least two command lines that can be copied
    examples = shown.partition("\nexamples:\n")[2]
    assert len(re.findall(rf"^  .*fluidlite[- ]{name}", examples, re.M)) >= 2


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


# ---------------------------------------------------------------------- docs and examples
def shown_by(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    assert main(list(given)) == 0
    return capsys.readouterr().out


def test_pages_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    listed = shown_by(capsys, "docs")
    headings = ["Start", "How to", "Learn", "Reference", "Inside"]
    assert [line for line in listed.splitlines() if line in headings] == headings
    for name in page_names():
        assert f"  {name} " in listed
        assert shown_by(capsys, "docs", name).startswith("# ") and "<!--" not in capsys.readouterr().out
    assert pathlib.Path(shown_by(capsys, "docs", "--folder").strip(), "CHECK.md").is_file()


@pytest.mark.parametrize(
    "name, words",
    [
        ("fc", "fluidlite.layers.fc("),
        ("layers.conv2d", "num_filters: int,"),
        ("fluid.optimizer.Adam", ".minimize: "),
        ("paddle.fluid.Executor", "fluidlite.Executor(place"),
        ("paddle.nn.functional.relu", "paddle.nn.functional.relu("),
        ("fluidlite.io", "module fluidlite.io"),
    ],
)
def test_names_are_described(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in shown_by(capsys, "docs", name)


def test_pages_are_searched(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown_by(capsys, "docs", "--search", "wait", "CYCLE").splitlines()
    assert "check (Rules): | deadlock | no roles wait for each other in a cycle |" in found
    assert len(shown_by(capsys, "docs", "--search", "the").splitlines()) == 41
    assert shown_by(capsys, "docs", "--search", "qwxz") == "no line has all of these words\n"


def test_a_wrong_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "lanch"]) == 2
    assert "no page and no name 'lanch'; did you mean 'launch'?" in capsys.readouterr().err


def test_examples_are_listed_copied_and_run(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = shown_by(capsys, "examples")
    assert re.search("^fit_a_line +Linear regression", listed, re.M) and "extras" not in listed
    assert shown_by(capsys, "examples", "--copy", str(tmp_path)).strip() == f"{tmp_path}/fluidlite-examples"
    assert (tmp_path / "fluidlite-examples/notebook.ipynb").is_file()
    assert main(["examples", "--copy", str(tmp_path)]) == 2
    assert main(["examples", "fit_a_lin"]) == 2
    errors = capsys.readouterr().err
    assert "exists: remove it" in errors and "did you mean 'fit_a_line'?" in errors
    command = [sys.executable, "-m", "fluidlite.cli.main", "examples", "word2vec", "--help"]
    assert "usage: word2vec.py" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "line, words",
    [
        ("fluidlite tr", "transpile"),
        ("fluidlite docs che", "checkpoints check"),
        ("fluidlite examples fit", "fit_a_line"),
        ("fluidlite show --mo", "--mode"),
        ("fluidlite transpile --mode geo", "geo_sgd"),
        ("fluidlite --comp", "--completion"),
    ],
)
def test_bash_completes(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = shown_by(capsys, "--completion", "bash")
    script += f"COMP_WORDS=({line}); COMP_CWORD={line.count(' ')}\n_fluidlite\n"
    command = ["bash", "-c", script + 'echo "${COMPREPLY[@]}"']
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{words}\n"


@pytest.mark.parametrize("shell, checks", [("zsh", "-n"), ("fish", "--no-execute")])
def test_other_shells_read_their_scripts(
    shell: str, checks: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script"
    script.write_text(shown_by(capsys, "--completion", shell))
    assert "geo_sgd" in script.read_text() and "checkpoints" in script.read_text()
    if shutil.which(shell):
        assert subprocess.run([shell, checks, str(script)], capture_output=True, text=True).stderr == ""


def test_completion_for_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", "tcsh"]) == 2
    assert capsys.readouterr().err == (
        "fluidlite: error: --completion takes the name of a shell: bash, zsh, fish\n"
    )
