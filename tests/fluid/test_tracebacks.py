"""Tracebacks of a user's mistakes: the user's frames and the message; warnings at the user's line."""

from __future__ import annotations

import importlib
import pathlib
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.base.refusals import why_left_out
from fluidlite.base.tracebacks import is_own_source, short_tracebacks
from fluidlite.errors import ArgumentError, FeedError, FluidError, NotFoundError

L = fluid.layers
OF_311 = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 raises again with the traceback that it has stored"
)
ROOT = pathlib.Path(__file__).parents[2]


def network() -> Any:
    x, label = fluid.data("x", [None, 4]), fluid.data("label", [None, 1], "int64")
    loss = L.mean(L.cross_entropy(L.fc(x, 3, act="softmax"), label))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def run(fetch: Any = None, startup: bool = True, **feed: Any) -> Any:
    loss = network()
    exe = fluid.Executor(fluid.CPUPlace())
    if startup:
        exe.run(fluid.default_startup_program())
    given = {"x": np.ones((5, 4), "float32"), "label": np.zeros((5, 1), "int64"), **feed}
    return exe.run(feed=given, fetch_list=[fetch or loss])


def run_2x() -> Any:
    x = paddle.static.data("x", [None, 4])
    return paddle.static.Executor().run(feed={"x": np.ones((3, 5), "float32")}, fetch_list=[x])


def read(rows: Callable[[], Any]) -> None:
    loader = fluid.io.DataLoader.from_generator([fluid.data("x", [None, 4])], capacity=2)
    loader.set_batch_generator(rows, places=fluid.cpu_places(1))
    for _ in loader():
        pass


def rows() -> Any:
    yield [np.ones((5, 4), "float32")]
    raise KeyError("no more")


LABEL = np.array([[0], [0], [0], [7], [0]])
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "size": (lambda: L.fc(fluid.data("x", [None, 4]), None), "size must be an integer, but is None"),
    "groups": (lambda: L.conv2d(fluid.data("x", [None, 4, 8, 8]), 8, 3, groups=0), "groups must not be 0"),
    "empty": (lambda: L.concat([]), "input must not be empty"),
    "shapes": (lambda: L.mul(fluid.data("x", [None, 4]), fluid.data("y", [5, 3])), "4 columns but Y has 5"),
    "operator": (lambda: fluid.data("x", [2, 4]) + fluid.data("y", [2, 3]), "4 against 3"),
    "text": (lambda: fluid.data("x", [2, 4]) * "a", r"in Variable.__mul__\(x, 'a'\)"),
    "dtype": (
        lambda: run(x=np.ones((5, 4))),
        r'feed array.astype\("float32"\)\n  declared at .*tracebacks.py',
    ),
    "feed's shape": (lambda: run(x=np.ones((5, 7), "float32")), r"\n  declared at .*test_tracebacks.py"),
    "class": (lambda: run(label=LABEL), r"label 7 is not one of 3 classes \(row 3"),
    "row": (lambda: run(label=LABEL[:3]), r"Label\[3, 1\] does not fit X\[5, 3\]"),
    "startup": (lambda: run(startup=False), "run the startup program"),
    "fetch": (lambda: run("mean_0.tmp_1"), "did you mean 'mean_0.tmp_0'"),
    "file": (lambda: fluid.io.load_inference_model("/no/model", fluid.Executor()), "no directory"),
    "reader": (lambda: read(rows), "the data reader raised KeyError: 'no more'"),
    "number": (lambda: float(network()), "no value while the program is built: fetch it"),
    "format": (lambda: f"{network():.4f}", "no value while the program is built: fetch it"),
    "percent": (lambda: "%f" % (network(),), "no value while the program is built: fetch it"),  # noqa: UP031
    "loop": (lambda: list(network()), "cannot be iterated over or unpacked .* fetch it"),
    "layer of 2.x": (lambda: paddle.nn.Linear(5, 3)(paddle.static.data("x", [None, 4])), "4 columns"),
    "size of 2.x": (lambda: paddle.nn.Linear(5, "3"), "in Linear"),
    "function of 2.x": (lambda: paddle.reshape(paddle.static.data("x", [2, 4]), [3, 3]), "reshape"),
    "run of 2.x": (run_2x, "received fed shape"),
    "argument of 2.x": (lambda: paddle.nn.functional.pad(None, [1]), "in paddle.nn.functional.pad"),
}


def raised(mistake: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as found:
        mistake()
    return found.value


@OF_311
@pytest.mark.parametrize("name", MISTAKES)
def test_the_users_frames_and_the_message(name: str) -> None:
    mistake, text = MISTAKES[name]
    error: BaseException | None = raised(mistake)
    assert error is not None and re.search(text, str(error)) and len(str(error).splitlines()) <= 4, str(error)
    while error is not None:
        assert {frame.filename for frame in traceback.extract_tb(error.__traceback__)} == {__file__}
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_flag_shows_all_frames() -> None:
    fluid.set_flags({"FLAGS_call_stack_level": 2})
    try:
        error = raised(MISTAKES["size"][0])
    finally:
        fluid.set_flags({"FLAGS_call_stack_level": 1})
    frames = traceback.extract_tb(error.__traceback__)
    assert any(is_own_source(frame.filename) for frame in frames) and error.__cause__ is not None


@OF_311
def test_the_cause_stays_where_it_can_be_found() -> None:
    error = raised(MISTAKES["size"][0])
    assert error.__cause__ is None and isinstance(error.__context__, TypeError) and error.__suppress_context__
    error = raised(MISTAKES["reader"][0])
    frames = traceback.extract_tb(error.__cause__ and error.__cause__.__traceback__)
    assert [frame.name for frame in frames] == ["rows"]


def test_frames_of_users_functions_stay() -> None:
    def body() -> Any:
        raise KeyError("mine")

    def build() -> Any:
        x = fluid.data("x", [1])
        return L.cond(L.less_than(x, x), body, body)

    error = raised(build)
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names == ["raised", "build", "body"] and type(error) is KeyError


def test_generators_and_functions_leave_the_same_way() -> None:
    @short_tracebacks
    def several() -> Any:
        yield 1
        raise ArgumentError("no second one")

    found = several()
    assert next(found) == 1
    with pytest.raises(ArgumentError):
        next(found)


def test_a_command_shows_the_script_alone(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle.fluid as fluid\n"
        "def build():\n"
        "    return fluid.layers.fc(fluid.data('x', [2, 3]), [])\n"
        "build()\n"
    )
    command = [sys.executable, "-m", "fluidlite", str(script)]
    lines = subprocess.run(command, capture_output=True, text=True).stderr.splitlines()
    assert lines[0].startswith("Traceback") and "train.py" in lines[1]
    if sys.version_info >= (3, 11):
        assert len(lines) <= 10 and not any("/fluidlite/layers/" in line for line in lines), lines


# ---------------------------------------------------------------------- messages
def test_errors_of_feeds_keep_their_class_and_line() -> None:
    with pytest.raises(FeedError, match=r"declared at .*test_tracebacks.py:\d+$"):
        run(x=[[1.0, 2.0], [3.0]])
    # copies of a program remember the line
    network()
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(FeedError, match=r"declared at .*test_tracebacks.py"):
        exe.run(fluid.default_main_program().clone(), feed={"x": np.ones((5, 4))})


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize(
    "layer, shape, dtype, text",
    [
        (
            lambda x: L.embedding(x, [4, 3]),
            [3, 1],
            "int64",
            r"id 9 is outside the table of 4 rows \(row 1 of Ids\)",
        ),
        (lambda x: L.one_hot(x, 4), [3, 1], "int64", r"index 9 is outside the 4 rows"),
    ],
)
def test_errors_of_ids_name_the_row(
    layer: Callable[[Any], Any], shape: list[int], dtype: str, text: str, naive: bool
) -> None:
    out = layer(fluid.data("x", [None, *shape[1:]], dtype))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    exe.run(fluid.default_startup_program())
    with pytest.raises(FluidError, match=text):
        exe.run(feed={"x": np.array([[0], [9], [0]])}, fetch_list=[out])


def test_a_plan_for_several_sizes_says_which_rows_are_unlike() -> None:
    x, y = fluid.data("x", [None, 1]), fluid.data("y", [None, 1])
    loss = L.mean(L.huber_loss(x, y, 1.0))
    exe = fluid.Executor(fluid.CPUPlace())
    for count in (5, 6, 7):
        exe.run(
            feed={"x": np.ones((count, 1), "float32"), "y": np.ones((count, 1), "float32")}, fetch_list=[loss]
        )
    with pytest.raises(FluidError, match=r"(X \(x\) has 5 rows, but Y \(y\) has 4 rows|5.*4|4.*5)"):
        exe.run(feed={"x": np.ones((5, 1), "float32"), "y": np.ones((4, 1), "float32")}, fetch_list=[loss])


def test_an_unknown_name_is_not_fetched() -> None:
    with pytest.raises(NotFoundError, match="did you mean"):
        run("mean_0.tmp")


# ---------------------------------------------------------------------- warnings
def unknown_feed() -> None:
    run(lable=np.zeros((5, 1), "int64"))


def half_precision() -> None:
    L.softmax(fluid.data("h", [2, 3], "float16"))


@pytest.mark.parametrize("call", [unknown_feed, half_precision])
def test_warnings_stand_at_the_users_line(call: Callable[[], None]) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert found and {warning.filename for warning in found} == {__file__}


def test_warnings_find_the_users_line_in_one_way() -> None:
    """`stacklevel` counts frames, and guards and decorators stand between."""
    # what is imported before programs are known, and modules that stand below them
    allowed = re.compile(r"fluidlite/base/|fluidlite/annotations|fluidlite/average|executor/cuda/|ir/warned")
    files = [
        path for folder in ("fluidlite", "executor", "transpiler") for path in (ROOT / folder).rglob("*.py")
    ]
    direct = [str(path) for path in files if "warnings.warn(" in path.read_text(encoding="utf8")]
    assert not [path for path in direct if not allowed.search(path)]


# ------------------------------------------------------------------------------------------------ all of them
DOORS = """
backward clip compiler contrib contrib.layers contrib.mixed_precision
data_feeder dataset evaluator executor framework incubate.fleet.base.role_maker
incubate.fleet.collective initializer io layers lod_tensor metrics nets optimizer paddle
paddle.distribution paddle.inference paddle.io paddle.jit paddle.linalg paddle.metric paddle.nn
paddle.nn.functional paddle.optimizer paddle.static paddle.static.nn paddle.text
paddle.vision.transforms parallel_executor param_attr reader regularizer transpiler
"""
# what the library makes by the thousands, and what never returns
NOT_GUARDED = {"Operator", "SelectedRows", "Tensor", "Variable"}
NOT_CALLED = {"init_parallel_env", "launch", "profiler", "run_check", "spawn", "start_profiler"}


class Odd:
    """A value that nothing takes."""


def mistaken(door: str) -> Iterator[tuple[str, Exception]]:
    """The names of a module with the errors that they raise for an odd value, where they raise one."""
    module = importlib.import_module(f"fluidlite.{door}")
    for name in sorted(set(getattr(module, "__all__", dir(module))) - NOT_GUARDED - NOT_CALLED):
        thing = getattr(module, name)
        if not callable(thing) or why_left_out(thing) or not thing.__module__.startswith("fluidlite."):
            continue
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            try:
                thing(Odd())
            except Exception as error:
                yield name, error


@OF_311
@pytest.mark.parametrize("door", DOORS.split())
def test_no_public_name_shows_the_library(door: str) -> None:
    """Functions and constructors alike, whatever they raise."""
    found = {}
    for name, error in mistaken(door):
        frames = traceback.extract_tb(error.__traceback__)
        if any(is_own_source(frame.filename) for frame in frames):
            found[name] = error
    assert not found


@OF_311
def test_an_error_that_nobody_catches_is_short() -> None:
    """By whatever way it leaves the library: here by a class that is not guarded."""
    code = "import fluidlite as fluid\nfluid.framework.Operator(None, None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[:2] == [
        "Traceback (most recent call last):",
        '  File "<string>", line 2, in <module>',
    ]
    assert lines[2].startswith("ValueError: ")
