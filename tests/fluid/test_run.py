"""`fluidlite-run` and `install_as_paddle`: old scripts as they are, as plain Python would run them."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.cli.scripts.process import CHILDREN

TRAIN = """\
import sys
import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.collective import fleet
import paddle.fluid.contrib.mixed_precision, paddle.fluid.core as core

x = fluid.layers.data(name="x", shape=[3], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
cost = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.SGD(learning_rate=0.1).minimize(cost)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
feeder = fluid.DataFeeder([x, y], fluid.CPUPlace())
rows = lambda: iter([([1.0, 2.0, 3.0], [4.0])] * 4)
for batch in paddle.batch(paddle.reader.shuffle(rows, 4), batch_size=2)():
    (value,) = exe.run(feed=feeder.feed(batch), fetch_list=[cost])
print("%.4f" % value[0] >= "0", sys.argv[1:])
"""
OF_2X = """\
import paddle, paddle.nn.functional as F
paddle.enable_static()
x = paddle.static.data("x", [2, 3])
print(F.relu(x).shape, paddle.mean(x).shape, type(paddle.static.default_main_program()).__module__)
"""
BETWEEN = """\
import paddle
if hasattr(paddle, "enable_static"):
    paddle.enable_static()
import paddle.fluid as fluid
print(fluid.layers.mean(fluid.data("x", [2, 3])).shape)
"""
PROCESSES = """\
import multiprocessing, subprocess, sys
import paddle.fluid as fluid

def work(number):
    import paddle.fluid
    return paddle.fluid is fluid and number + 1

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(work, [1, 2]))
    program = "import fluidlite, paddle.fluid as fluid; print(fluid is fluidlite)"
    subprocess.run([sys.executable, "-c", program], check=True)
"""
# a shell's background job ignores the signal, and so do the processes that it starts
INTERRUPTED = """\
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
for _ in range(10**9): pass
"""
ITSELF = """\
import os, pickle, sys
class Own: pass
print(__name__, __package__, os.path.basename(__file__), __spec__, sys.argv, sys.path[0])
print(type(pickle.loads(pickle.dumps(Own()))) is Own, sys.modules["__main__"].Own is Own)
"""


def run(
    *argv: object, cwd: pathlib.Path, command: tuple[str, ...] = ("-m", "fluidlite"), **environ: str
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `fluidlite-run`, or of plain Python where `command` is empty."""
    done = subprocess.run(
        [sys.executable, *command, *map(str, argv)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
    )
    return done.returncode, done.stdout, done.stderr


def write(folder: pathlib.Path, **files: str) -> pathlib.Path:
    for name, text in files.items():
        path = folder / (name.replace("__slash__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf8")
    return folder


@pytest.mark.parametrize(
    "text, said",
    [
        (TRAIN, "True ['--epochs', '3', '-m']\n"),
        (OF_2X, "(2, 3) () fluidlite.paddle.programs\n"),
        (BETWEEN, "(1,)\n"),
        (PROCESSES, "[2, 3]\n[2, 3]\nTrue\n"),
    ],
    ids=["train", "2x", "between", "processes"],
)
def test_scripts(tmp_path: pathlib.Path, text: str, said: str) -> None:
    write(tmp_path, old=text)
    assert run("old.py", "--epochs", "3", "-m", cwd=tmp_path) == (0, said, "")


def test_a_script_where_the_current_folder_is_gone(tmp_path: pathlib.Path) -> None:
    write(tmp_path, old="print(__file__)")
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"rmdir '{gone}' && {sys.executable} -m fluidlite.cli.run '{tmp_path}/old.py'"
    found = subprocess.run(["sh", "-c", line], cwd=gone, capture_output=True, text=True, check=False)
    assert found.stdout == f"{tmp_path}/old.py\n", found.stderr


def test_a_script_from_stdin(tmp_path: pathlib.Path) -> None:
    write(tmp_path, beside="print('beside')")
    text = "import beside, sys, paddle.fluid as fluid\nprint(__name__, sys.argv, fluid.__name__)\n1 / 0\n"
    found = subprocess.run(
        [sys.executable, "-m", "fluidlite.cli.run", "-", "--epochs", "3"],
        cwd=tmp_path,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "beside\n__main__ ['-', '--epochs', '3'] fluidlite\n"
    assert found.returncode == 1 and '<stdin>", line 3' in found.stderr


def test_first_line_of_a_script(tmp_path: pathlib.Path) -> None:
    write(tmp_path, old="import fluidlite; fluidlite.install_as_paddle()\n" + PROCESSES)
    code, out, err = run("old.py", cwd=tmp_path, command=())
    # a Python of its own does not know what this process did
    assert code == 1 and out == "[2, 3]\n[2, 3]\n" and "No module named 'paddle'" in err


@pytest.mark.parametrize(
    "text",
    [
        ITSELF,
        "import sys; sys.exit('bye')",
        "raise SystemExit(3)",
        "def f():\n    raise ValueError('no')\ntry:\n    f()\nexcept ValueError as error:\n    1 / 0\n",
        "x = = 1",
        "def f(x: int) -> None: pass\nprint(f.__annotations__)",
        "import beside",
        "raise KeyboardInterrupt",
        "import sys\nsys.excepthook = lambda *error: print(error[0].__name__)\n1 / 0",
        "import atexit, threading\natexit.register(print, 1)\nthreading.Timer(0.1, print, [2]).start()\n",
        INTERRUPTED,
    ],
    ids=[
        "itself",
        "message",
        "code",
        "chained",
        "syntax",
        "annotations",
        "beside",
        "interrupt",
        "hook",
        "atexit",
        "signal",
    ],
)
def test_as_plain_python(tmp_path: pathlib.Path, text: str) -> None:
    write(tmp_path, old=text, beside="def f(): return 1 / 0\nf()\n")
    (tmp_path / "elsewhere").mkdir()
    ours = run("../old.py", "a", "-b", cwd=tmp_path / "elsewhere")
    plain = run("../old.py", "a", "-b", cwd=tmp_path / "elsewhere", command=())
    assert ours == plain
    assert "fluidlite" not in ours[2]


def test_interrupted_processes_end_by_the_signal(tmp_path: pathlib.Path) -> None:
    write(tmp_path, old="raise KeyboardInterrupt")
    assert run("old.py", cwd=tmp_path)[0] == -signal.SIGINT


def test_modules_of_packages(tmp_path: pathlib.Path) -> None:
    inside = "from . import near\nimport sys\n" + ITSELF.replace("__spec__", "__spec__.name")
    write(tmp_path, pkg__slash____init__="", pkg__slash__near="import paddle.fluid", pkg__slash__job=inside)
    write(tmp_path, pkg__slash____main__="print(__name__, __package__)")
    code, out, err = run("-m", "pkg.job", "--x", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith("__main__ pkg job.py pkg.job ['") and f"'--x'] {tmp_path}\n" in out
    assert run("-m", "pkg", cwd=tmp_path) == (0, "__main__ pkg\n", "")


@pytest.mark.parametrize(
    "argv, said",
    [
        (("nowhere.py",), "no such file: nowhere.py"),
        ((), "no script is given: use fluidlite-run script.py (see --help)"),
        (("--nothing", "old.py"), "unrecognized arguments: --nothing (see --help)"),
        (("-m", "pkgg.job"), "no module named pkgg.job"),
        (("-m", "olb"), "no module named olb; did you mean 'old'?"),
    ],
)
def test_wrong_command_lines(tmp_path: pathlib.Path, argv: tuple[str, ...], said: str) -> None:
    write(tmp_path, old="")
    assert run(*argv, cwd=tmp_path) == (2, "", f"fluidlite-run: error: {said}\n")


# ------------------------------------------------------------------------------------------------ installed
def test_a_paddle_that_is_installed(tmp_path: pathlib.Path) -> None:
    other = write(tmp_path / "site", paddle__slash____init__="fluid = 'real'")
    write(
        tmp_path,
        asks="import fluidlite\nfluidlite.install_as_paddle()",
        shadows="import paddle, fluidlite\nfluidlite.install_as_paddle(shadow=True)\n"
        "fluidlite.install_as_paddle()\nreal = paddle.fluid\n"
        "import paddle.fluid as fluid\nprint(real, fluid is fluidlite)",
        run="import paddle.fluid as fluid\nprint(fluid.__name__)",
    )
    path = str(other)
    code, _, err = run("asks.py", cwd=tmp_path, command=(), PYTHONPATH=path)
    place = re.escape(str(other / "paddle" / "__init__.py"))
    assert code == 1 and re.search(
        rf"InstalledPaddleError: PaddlePaddle is installed at {place}: call install_as_paddle\(shadow=True\)",
        err,
    )
    assert run("shadows.py", cwd=tmp_path, command=(), PYTHONPATH=path)[:2] == (0, "real True\n")
    assert run("run.py", cwd=tmp_path, PYTHONPATH=path)[:2] == (0, "fluidlite\n")
    # what `fluidlite-run` leaves to the processes that a script starts is no other Paddle
    assert run("asks.py", cwd=tmp_path, command=(), PYTHONPATH=CHILDREN) == (0, "", "")
    assert run("run.py", cwd=tmp_path, command=(), PYTHONPATH=f"{CHILDREN}{os.pathsep}{path}")[0] == 0


def test_names_of_paddle(tmp_path: pathlib.Path) -> None:
    write(
        tmp_path,
        old="import paddle, paddle.batch, paddle.fluid.layers.nn as nn, fluidlite\n"
        "from paddle.batch import batch\nfrom paddle.reader.decorator import shuffle\n"
        "assert nn is fluidlite.layers.nn and nn.__spec__.name == 'fluidlite.layers.nn'\n"
        "assert batch is paddle.batch and shuffle is paddle.reader.shuffle\n"
        "from paddle.fluid.layers import rnn, lstm\n"
        "import paddle.fluid.layers.rnn as again\n"
        "from paddle.fluid.layers.rnn import RNNCell\n"
        "assert rnn is again is paddle.fluid.layers.rnn and callable(rnn) and callable(lstm)\n"
        "assert paddle.static is fluidlite.paddle.static and paddle.__version__ == '1.8.5'\n"
        "assert {'fluid', 'batch', 'dataset', 'static'} <= set(dir(paddle))\n"
        "paddle.meann\n",
    )
    code, _, err = run("old.py", cwd=tmp_path)
    assert code == 1 and "module 'paddle' has no attribute 'meann'; did you mean 'mean'?" in err


# ------------------------------------------------------------------------------------------------ --check
WRONG = """\
import paddle
import paddle.fluid as fluid
from paddle.fluid import layers
from paddle.fluid.layers import fc as dense, fcc
from paddle.fluid.dygraph import Linear
import helper, broken
L = fluid.layers
with fluid.dygraph.guard():
    dense(input=1, size=2, actt="relu")
L.conv2d_transposed(1)
layers.relu(1, 2, 3, 4)
fluid.optimizer.Adam(0.1, beta3=1).minimize
fluid.io.DataLoader.from_gen()
paddle.disable_static()
paddle.v2.init()
paddle.nn.Linear(3, 4, foo=1)
"""
RIGHT = """\
import sys, paddle, paddle.fluid as fluid, paddle.nn.functional as F
from paddle.fluid.layers import *
from paddle.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
fluid.io.DataLoader.from_generator(feed_list=[fluid.data("x", [1])], capacity=1)
fluid.layers.data(*["z"], **{"shape": [1]})
print(fluid.core.VarDesc.VarType.FP32, paddle.dataset.mnist.train().__name__, F.relu.__name__, sys.argv[1])
"""
STATIC = "static graphs only: FluidLite runs programs, and has no imperative mode"
TAKES = "it takes in_features, out_features, weight_attr, bias_attr, name"
LACKING = f"""\
old.py:4: fluid.layers.fcc: not there; did you mean 'fc'?
old.py:5: fluid.dygraph.Linear: {STATIC}
old.py:8: fluid.dygraph.guard: {STATIC}
old.py:9: fluid.layers.fc: no argument 'actt'; did you mean 'act'?
old.py:10: fluid.layers.conv2d_transposed: not there; did you mean 'conv2d_transpose'?
old.py:11: fluid.layers.relu: called with 4 arguments, but it takes 2
old.py:12: fluid.optimizer.Adam: no argument 'beta3'; did you mean 'beta2'?
old.py:13: fluid.io.DataLoader.from_gen: not there; did you mean 'from_generator'?
old.py:14: paddle.disable_static: {STATIC}
old.py:15: paddle.v2.init: the interface before fluid, which 1.8.5 does not have either
old.py:16: paddle.nn.Linear: no argument 'foo' ({TAKES})
helper.py:1: fluid.layers.foo: not there; did you mean 'floor'?
fluidlite-run: 12 names would fail; without --check the script runs nevertheless
"""


def test_check(tmp_path: pathlib.Path) -> None:
    write(tmp_path, old=WRONG, helper="from paddle.fluid.layers import foo", broken="x = = 1")
    assert run("--check", "old.py", cwd=tmp_path) == (1, "", LACKING)
    write(tmp_path, old=RIGHT)
    assert run("--check", "old.py", "--check", cwd=tmp_path) == (
        0,
        "VarType.FP32 <lambda> relu --check\n",
        "",
    )


@pytest.mark.parametrize("name", ["fluid.imperative", "fluid.guard", "fluid.dygraph.gard", "paddle.guard"])
def test_imperative_names_when_they_are_read(name: str) -> None:
    with pytest.raises(AttributeError, match="; static graphs only"):
        eval(name, {"fluid": fluid, "paddle": paddle})


# ------------------------------------------------------------------------------------------------ --cpu
ON_A_DEVICE = """
import numpy as np
import paddle
import paddle.fluid as fluid

place = fluid.CUDAPlace(0)
x = fluid.data("x", [None, 4])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
data = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
    loss_name=loss.name, places=fluid.cuda_places([0, 1])
)
feed = {"x": np.ones((4, 4), "float32")}
parts = exe.run(data, feed=feed, fetch_list=[loss])[0].shape
both = fluid.ParallelExecutor(use_cuda=True, loss_name=loss.name)
whole = both.run(fetch_list=[loss.name], feed=feed)[0].shape
print(place, parts, whole, fluid.cuda_pinned_places())
print(paddle.set_device("gpu:0"), fluid.is_compiled_with_cuda())
"""


def test_a_script_for_a_device_on_the_cpu(tmp_path: pathlib.Path) -> None:
    """Whatever it asks for a device; without the switch the error says what to do."""
    folder = write(tmp_path, train=ON_A_DEVICE)
    code, out, err = run("--cpu", "train.py", cwd=folder)
    assert (code, out) == (0, "CPUPlace (2,) (1,) [CPUPlace]\nCPUPlace False\n"), err


@pytest.mark.skipif(fluid.is_compiled_with_cuda(), reason="a CUDA device is here")
def test_a_script_for_a_device_that_is_not_here(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path, train=ON_A_DEVICE)
    code, _, err = run("train.py", cwd=folder)
    assert code == 1 and "use CPUPlace(), run the script by `fluidlite run --cpu`" in err
    assert err.splitlines()[1] == f'  File "{folder / "train.py"}", line 10, in <module>'
