"""`fluidlite-transpile`: what it takes, what it shows, and what it says when something is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

import fluidlite as fluid
from fluidlite.cli.options import SHELLS
from fluidlite.cli.scripts.names import paddle_names
from fluidlite.cli.transpile import main
from fluidlite.errors import FluidError
from fluidlite.ir.text import parse
from fluidlite.show import FORMATS
from fluidlite.show.json import parse as parse_json
from fluidlite.transpiler.modes import MODES, Job, TrainingMode
from fluidlite.transpiler.modes.pserver import Pserver
from fluidlite.transpiler.parts.roles import JobRole, Programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted(
    path for path in (ROOT / "examples").glob("*.py") if "fluid.Executor" in path.read_text(encoding="utf8")
)
NET = """
x = fluid.data("x", [None, 20]); y = fluid.data("y", [None, 1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.SGD(0.1).minimize(loss)
"""
HEAD = "import fluidlite as fluid\n"
INDENTED = "    " + NET.strip().replace("\n", "\n    ") + "\n"
RUN = """exe = fluid.Executor(fluid.CUDAPlace(0)); exe.run(fluid.default_startup_program())
raise SystemExit('too far')
"""


def call(*argv: object, stdin: bytes | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf8", write_through=True), io.StringIO()
    saved = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin or b""))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(item) for item in argv])
    finally:
        sys.stdin = saved
    out.seek(0)
    return code, out.buffer.getvalue().decode("utf8", "surrogateescape"), err.getvalue()


def script(tmp_path: pathlib.Path, text: str, name: str = "train.py") -> pathlib.Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf8")
    return path


@pytest.fixture
def train(tmp_path: pathlib.Path) -> pathlib.Path:
    return script(tmp_path, HEAD + NET + RUN)


def fails(*argv: object, stdin: bytes | None = None) -> str:
    """The one line on stderr of a call that ends with exit code 2."""
    code, out, err = call(*argv, stdin=stdin)
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert lines[-1].startswith("fluidlite-transpile: error: ") and "Traceback" not in err
    return lines[-1].removeprefix("fluidlite-transpile: error: ")


# ------------------------------------------------------------------------------------------------ sources
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example(path: pathlib.Path) -> None:
    before = fluid.default_main_program(), sys.argv[:], sys.path[:], sys.modules["__main__"]
    code, out, err = call(path, "--check", "--trainers", 3)
    assert code == 0 and out.startswith("ok: "), out + err
    assert before == (fluid.default_main_program(), sys.argv[:], sys.path[:], sys.modules["__main__"])


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_mode(train: pathlib.Path, mode: TrainingMode) -> None:
    code, out, _ = call(train, "--mode", mode.name, "--trainers", 3)
    assert code == 0 and re.search(r"^trainer0\.\.2 +\d+ ", out, re.M)
    assert ("pserver0" in out) == mode.has_servers


@pytest.mark.parametrize(
    "text",
    [
        "import paddle\nimport paddle.fluid as fluid\n" + NET + RUN,
        "import paddle.fluid as fluid\nfrom paddle.fluid.layers import fc\nimport paddle.fluid.layers.nn as "
        "nn\nassert nn.fc is fc\n" + NET + RUN,
        "import paddle\nfrom paddle import fluid\nreader = "
        "paddle.batch(paddle.reader.shuffle(paddle.dataset.mnist.train(), 10), 2)\n" + NET + RUN,
        HEAD
        + "main, start = fluid.Program(), fluid.Program()\nwith fluid.program_guard(main, start):\n"
        + INDENTED
        + "fluid.Executor(fluid.CPUPlace()).run(start)\n",
        HEAD + NET + "try:\n    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())\n"
        "except Exception:\n    raise SystemExit(9)\n",
        HEAD + NET + "def train():\n"
        "    fluid.Executor(fluid.CPUPlace()).run(fluid.CompiledProgram(fluid.default_main_program()), "
        "feed={})\ntrain()\n",
        HEAD
        + NET
        + "t = fluid.DistributeTranspiler()\nt.transpile(1, pservers='127.0.0.1:6174', trainers=2)\n"
        + RUN,
        HEAD
        + "import sys\nassert sys.argv[1:] == ['--lr', '3'] and __name__ == '__main__'\nprint('hello')\n"
        + NET
        + RUN,
    ],
    ids=[
        "paddle",
        "from_paddle",
        "paddle_readers",
        "own_programs",
        "excepts",
        "compiled",
        "transpiles",
        "arguments",
    ],
)
def test_scripts(tmp_path: pathlib.Path, text: str) -> None:
    code, out, err = call(script(tmp_path, text), "--role", "pserver0", "--format", "text", "--", "--lr", "3")
    assert code == 0, err
    assert "hello" not in out and "listen_and_serv" in str(parse(out))
    assert "paddle" not in sys.modules


def test_a_script_of_two_programs(tmp_path: pathlib.Path) -> None:
    guard = "with fluid.program_guard({}, start):\n" + INDENTED
    text = (
        HEAD
        + "d_net, g_net, start = fluid.Program(), fluid.Program(), fluid.Program()\n"
        + guard.format("d_net")
        + guard.format("g_net")
    )
    path = script(tmp_path, text + "fluid.Executor(fluid.CPUPlace()).run(start)\n")
    assert fails(path) == "train.py has 2 training programs (d_net, g_net): choose one with --program NAME"
    assert "did you mean 'd_net'" in fails(path, "--program", "dnet")
    code, out, _ = call(path, "--program", "g_net", "--format", "text")
    assert code == 0 and "fc_1.w_0" in out and "fc_0.w_0" not in out


def test_functions(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(
        tmp_path,
        HEAD
        + "def defaults():\n"
        + INDENTED
        + "def pair():\n    main, start = fluid.Program(), fluid.Program()\n"
        "    with fluid.program_guard(main, start):\n        defaults()\n    return main, start\ndef "
        "one():\n    return pair()[0]\n"
        "def nothing():\n    return 3\ndef wrong():\n    return 1 / 0\nnumber = 3\n",
        "nets_of_a_test.py",
    )
    monkeypatch.chdir(tmp_path)
    for name in ("defaults", "pair", "one"):
        code, out, err = call(f"nets_of_a_test:{name}", "--role", "trainer0", "--format", "code")
        assert code == 0 and "fc_0.w_0" in out, err
    assert "did you mean 'pair'" in fails("nets_of_a_test:pairs")
    assert "built nothing" in fails("nets_of_a_test:nothing") and "ZeroDivisionError" in fails(
        "nets_of_a_test:wrong"
    )
    assert "is not a function" in fails("nets_of_a_test:number") and "No module named 'nowhere'" in fails(
        "nowhere:f"
    )


def saved(tmp_path: pathlib.Path, train: pathlib.Path) -> tuple[fluid.Program, fluid.Program]:
    programs = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(*programs):
        exec(NET, {"fluid": fluid})
    return programs


@pytest.mark.parametrize("name", ["text", "json", "pb"])
def test_saved_programs(tmp_path: pathlib.Path, train: pathlib.Path, name: str) -> None:
    main_program, startup = saved(tmp_path, train)
    (tmp_path / "__model__").write_bytes(FORMATS[name].render(main_program))
    (tmp_path / "start").write_bytes(FORMATS[name].render(startup))
    expected = call(tmp_path / "__model__", "--startup", tmp_path / "start", "--format", "code")
    assert expected[0] == 0 and "send_barrier" in expected[1]
    assert call(tmp_path, "--startup", tmp_path / "start", "--format", "code") == expected
    assert (
        call(
            "-", "--startup", tmp_path / "start", "--format", "code", stdin=FORMATS[name].render(main_program)
        )
        == expected
    )


# ------------------------------------------------------------------------------------------------ outputs
def test_the_table_says_what_each_role_does(train: pathlib.Path) -> None:
    code, out, err = call(train, "--pservers", "10.0.0.1:7000,10.0.0.2:7000", "--trainers", 4)
    assert (code, err) == (0, "") and "\x1b" not in out
    heads, *rows = out.splitlines()
    assert re.split(r" {2,}", heads) == [
        "role",
        "endpoint",
        "ops",
        "parameters",
        "sent a step",
        "received a step",
    ]
    assert [row.split()[0] for row in rows] == [
        "trainer0..3",
        "pserver0",
        "pserver1",
    ] and "10.0.0.2:7000" in rows[2]
    assert call(train, "--trainer-id", 1)[1].count("\n") == 2


def test_files_of_every_format(train: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "deep" / "out"
    argv = [item for name in FORMATS for item in ("--format", name)]
    code, out, _ = call(train, "-o", folder, *argv)
    assert code == 0 and out.startswith(f"57 files in {folder}\n")
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 57 and "index.html" in names and not [name for name in names if name.startswith(".")]
    for role in ("trainer0", "trainer1", "pserver0", "pserver1"):
        for which in ("main", "startup"):
            program = parse((folder / f"{role}.{which}.txt").read_text())
            assert str(parse_json((folder / f"{role}.{which}.json").read_text())) == str(program)
            types = [op.type for block in program.blocks for op in block.ops]
            read = fluid.Program.parse_from_string((folder / f"{role}.{which}.pdmodel").read_bytes())
            assert [op.type for block in read.blocks for op in block.ops] == types
    code, _, _ = call(train, "-o", tmp_path / "one", "--role", "pserver1")
    assert code == 0 and sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "pserver1.main.txt",
        "pserver1.startup.txt",
    ]


def test_a_folder_stays_as_it_was_when_something_fails(
    train: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    assert call(train, "-o", folder)[0] == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(program: fluid.Program) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(FORMATS, "code", FORMATS["code"]._replace(render=full))
    assert fails(train, "-o", folder, "--format", "text", "--format", "code", "--trainers", 3).endswith(
        "No space left on device"
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_stdout_is_one_program(train: pathlib.Path) -> None:
    for name in FORMATS:
        code, out, _ = call(train, "--role", "pserver1", "--format", name)
        assert code == 0 and ("pserver1" in out if name == "html" else "listen_and_serv" in out)


def test_differences_plans_and_checks(train: pathlib.Path) -> None:
    code, out, _ = call(train, "--diff")
    assert (
        code == 0
        and out.count(" program against the original\n") == 4
        and "\n+ send_barrier(" in out
        and "\x1b" not in out
    )
    code, out, _ = call(train, "--plan", "--full", "--batch", 8)
    assert code == 0 and "activations" in out and "a step takes about" in out and "samples a second" in out
    code, out, _ = call(train, "--plan", "--gbits", 25, "--latency-us", 10, "--compute-ms", 5)
    assert code == 0 and "5 ms of it computing" in out and "(port: 10 us a message, 3.12 GB/s)" in out
    code, out, _ = call(train, "--check", "--diff", "--role", "trainer1")
    assert code == 0 and "trainer1: main program" in out and "\nok: " in out


def test_a_check_that_finds_something(train: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making = Pserver.programs

    def without_a_barrier(mode: Pserver, job: Job, role: JobRole) -> Programs:
        made = making(mode, job, role)
        block = made.main.global_block()
        block.ops[:] = [op for op in block.ops if op.type != "send_barrier"]
        return made

    monkeypatch.setattr(Pserver, "programs", without_a_barrier)
    code, out, err = call(train, "--check")
    assert code == 1 and "barrier" in out and err == ""


def test_asynchronous_and_configured(train: pathlib.Path) -> None:
    assert "send_barrier" not in call(train, "--async", "--format", "text")[1]
    config = [
        item
        for pair in ("slice_var_up=false", "split_method=HashName", "min_block_size=4")
        for item in ("--config", pair)
    ]
    code, out, _ = call(train, "--pservers", 2, *config, "--format", "text")
    assert code == 0 and "block0" not in out


# ---------- what is wrong
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--mode", "pservr"], "no mode 'pservr'; did you mean 'pserver'?"),
        (["--rol", "x"], "no option '--rol'; did you mean '--role'?"),
        (["--role", "trainr0"], "did you mean 'trainer0'?"),
        (["--trainer-id", "7"], "no role 'trainer7'"),
        (["--trainer-id", "1", "--role", "pserver0"], "name different roles"),
        (["--format", "txt"], "did you mean 'text'?"),
        (["--format", "text", "--format", "code"], "need a folder: -o DIR"),
        (["--format", "text", "--plan"], "cannot be combined with"),
        (["--config", "min_blok_size=1"], "did you mean 'min_block_size'?"),
        (["--config", "min_block_size"], "expects key=value"),
        (["--config", "min_block_size=x"], "'x' is not an integer"),
        (["--config", "slice_var_up=perhaps"], "must be true or false"),
        (["--config", "split_method=HashNam"], "did you mean 'HashName'?"),
        (["--config", "runtime_split_send_recv=true"], "sync_mode is false"),
        (["--trainers", "0"], "'0' is not an integer"),
        (["--trainers", "9" * 30], "is not an integer"),
        (["--trainers"], "expected one argument"),
        (["--pservers", "two"], "'two' is not an integer"),
        (["--pservers", "1", "--endpoints", "a:1"], "set the same value"),
        (["--endpoints", "127.0.0.1:6174,127.0.0.1:6174"], "twice"),
        (["--endpoints", "127.0.0.1"], "127.0.0.1"),
        (["--mode", "nccl2", "--pservers", "2"], "has no servers"),
        (["--plan", "--gbits", "-1"], "'-1' is not a positive number"),
        (["--plan", "--gflops", "1", "--compute-ms", "1"], "set the same value"),
        (["--mode", "nccl2", "--trainers", "3", "--endpoints", "a:1,b:1"], "3 trainers"),
        (["other.py"], "give only one SOURCE"),
        (["--sync", "--async"], "--async: not allowed with argument --sync"),
        (["--mode", "grad_allreduce", "--async"], "mode grad_allreduce has no asynchronous variant"),
        (["--mode", "nccl2", "--config", "sync_mode=false"], "mode nccl2 has no asynchronous variant"),
        (["--mode", "async", "--sync"], "do not synchronise at each step"),
        (["--async", "--config", "sync_mode=true"], "conflicts with"),
        (
            ["--mode", "nccl2", "--config", "min_block_size=3"],
            "does not read --config min_block_size (it reads: ",
        ),
        (["--config", "mode=nccl2"], "mode pserver does not read --config mode"),
        (["--startup", "x"], "--startup can only be used with saved programs"),
        (["--mode", "local", "--trainers", "2"], "mode local has one process"),
        (["--mode", "none", "--pservers", "2"], "has no servers"),
        (["--json"], "--json can only be used with --cost, --check and --verify"),
        (["--cost", "--json", "--format", "text"], "--json conflicts with --format text"),
        (["--completion", "fsh"], "did you mean 'fish'?"),
        (["-o", "/proc/none/x"], "cannot write to /proc/none/x"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_wrong_arguments(train: pathlib.Path, argv: list[str], message: str) -> None:
    assert message in fails(train, *argv)


@pytest.mark.parametrize(
    "end",
    ["", "import sys\nsys.exit()\n", "main = fluid.default_main_program()\n"],
    ids=["", "exit", "named"],
)
def test_scripts_that_only_build(tmp_path: pathlib.Path, end: str) -> None:
    source = script(tmp_path, HEAD + NET + end)
    code, text, _ = call(source, "--role", "pserver0", "--format", "text")
    assert code == 0 and "listen_and_serv" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "def f():\n    return 1 / 0\nf()\n", "train.py:3: ZeroDivisionError: division by zero"),
        (HEAD + "x = (\n", "train.py:2: SyntaxError"),
        (HEAD, "ended without a program: it built none, and called neither Executor.run nor"),
        (HEAD, "if it only builds the network, put that into a function"),
        (HEAD + "def f(x): pass\ndef build():\n" + INDENTED, "name that: train:build"),
        ("import os\nos.environ['PADDLE_TRAINER_ID']", "set it: PADDLE_TRAINER_ID=0 before the command"),
        (HEAD + "raise SystemExit(3)", "ended (exit code 3) before its first Executor.run"),
        (
            "import paddle.fluid.nowhere",
            "train.py:1: ModuleNotFoundError: No module named 'paddle.fluid.nowhere'",
        ),
        ("import paddle\npaddle.dataset.imdb.word_dict()", "train.py:2: MissingFileError: file"),
        ("import paddle\npaddle.meann", "module 'paddle' has no attribute 'meann'; did you mean 'mean'?"),
        (HEAD + "x = fluid.data('x', [None, 3])\nfluid.layers.mean(x)\n" + RUN, "optimizer"),
        (HEAD + "fluid.layers.fcc(1)\n", "train.py:2: AttributeError"),
    ],
    ids=[
        "raises",
        "syntax",
        "no_run",
        "builds",
        "function",
        "variable",
        "exits",
        "module",
        "dataset",
        "attribute",
        "no_optimizer",
        "layer",
    ],
)
def test_scripts_that_are_wrong(tmp_path: pathlib.Path, text: str, message: str) -> None:
    assert message in fails(script(tmp_path, text))


@pytest.mark.parametrize(
    ("argv", "mode"),
    [
        (["--config", "sync_mode=false"], "async"),
        (["--async", "--config", "runtime_split_send_recv=true"], "async"),
        (
            ["--async", "--config", "half_async=true", "--config", "runtime_split_send_recv=true"],
            "half_async",
        ),
        (["--mode", "half_async", "--config", "half_async=true"], "half_async"),
        (["--mode", "geo_sgd", "--config", "sync_mode=false"], "geo_sgd"),
        (["--mode", "none"], "local"),
        ([], "pserver"),
    ],
    ids=str,
)
def test_options_that_choose_a_mode(train: pathlib.Path, argv: list[str], mode: str) -> None:
    code, out, err = call(train, "--cost", "--json", *argv)
    assert (code, err) == (0, "") and json.loads(out)["mode"] == mode


def test_a_script_from_stdin(train: pathlib.Path) -> None:
    wanted = call(train)
    assert wanted[0] == 0 and call("-", stdin=train.read_bytes()) == wanted
    _, text, _ = call(train, "--mode", "none", "--format", "text")
    assert text.startswith("program") and call("-", stdin=text.encode())[0] == 0
    assert "<stdin>:1: ModuleNotFoundError" in fails("-", stdin=b"import nowhere_at_all\n")


def test_reports_as_json(train: pathlib.Path) -> None:
    both = json.loads(call(train, "--cost", "--check", "--json")[1])
    assert both["check"]["ok"] and both["check"]["findings"] == [] and "trainer0" in both["check"]["roles"]
    plan = json.loads(call(train, "--cost", "--json", "--trainers", "4")[1])
    assert plan["roles"][0]["role"] == "trainer0..3" and plan["links"] and plan["scaling"]
    proof = json.loads(call(train, "--verify", "--json", "--steps", "2")[1])
    assert proof["ok"] and proof["steps"] == 2


def test_the_recommendation_comes_first(train: pathlib.Path) -> None:
    code, out, _ = call(train, "--plan", "--trainers", "8", "--compute-ms", "10")
    first, second, *rest = out.splitlines()
    assert code == 0 and second == "" and len(rest) <= 12
    assert {line.split()[1] for line in rest[1:-2]} == {"8"} and rest[-1].startswith("a step takes about")
    full = call(train, "--cost", "--full", "--trainers", "8", "--compute-ms", "10")[1]
    assert len(full.splitlines()) > 3 * len(rest) and "activations" in full
    assert "--full can only be used with --cost" in fails(train, "--full")
    assert re.fullmatch(
        r"8 trainers: (pserver|grad_allreduce|nccl2), 1\d(\.\d)? ms a step; "
        r"(servers|rings) (are faster from \d+ trainers on|are not faster with any number of trainers)",
        first,
    )


def test_a_full_disk_is_one_line(train: pathlib.Path) -> None:
    for argv in ([], ["--format", "text"], ["--cost", "--json"]):
        with open("/dev/full", "w", encoding="utf8") as full:
            ran = subprocess.run(
                [*COMMAND, str(train), *argv], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert ran.returncode == 2
        assert ran.stderr == "fluidlite-transpile: error: No space left on device, where the output goes\n"


@pytest.mark.parametrize("command", ["run", "show", "launch", "transpile"])
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_says_that_a_disk_is_full(command: str, option: str) -> None:
    with open("/dev/full", "w", encoding="utf8") as full:
        found = subprocess.run(
            [sys.executable, "-m", f"fluidlite.cli.{command}", option],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    said = f"fluidlite-{command}: error: No space left on device, where the output goes\n"
    assert (found.returncode, found.stderr) == (2, said)


@pytest.mark.parametrize("line", ["-m fluidlite.cli.transpile {}", "-m fluidlite.cli.show {} -o -"])
def test_a_closed_stdout_is_no_traceback(train: pathlib.Path, line: str) -> None:
    command = f"{sys.executable} {line.format(train)} >&-"
    found = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_sources_that_are_wrong(train: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "did you mean 'train.py'?" in fails(tmp_path / "trian.py")
    assert (
        "no program is given" in fails()
        and "is empty" in fails("-")
        and "cannot be parsed as a ProgramDesc" in fails("-", stdin=b"\xff\x00nonsense")
    )
    assert "line 3" in fails("-", stdin=b"program\nblock 0\n  mul(\n") and "is not a program" in fails(
        "-", stdin=b"{}"
    )
    assert "No such file" in fails(tmp_path / "missing") and "only scripts take arguments" in fails(
        "-", "--", "3", stdin=b"program"
    )
    code, text, _ = call(train, "--format", "text")
    assert code == 0 and "transpiled already" in fails("-", stdin=text.encode())


# ------------------------------------------------------------------------------------------------ the process
COMMAND = [sys.executable, "-m", "fluidlite.cli.transpile"]


def process(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, argv)], capture_output=True, text=True, timeout=300, check=False, **options
    )


def test_as_a_process(train: pathlib.Path) -> None:
    ran = process("--version")
    assert (ran.returncode, ran.stdout) == (0, f"fluidlite {fluid.__version__}\n")
    ran = process("--help")
    assert (
        ran.returncode == 0
        and all(f"--{name}" in ran.stdout for name in ("mode", "config", "plan", "diff"))
        and "examples:" in ran.stdout
    )
    ran = process(train, "--role", "nobody")
    assert ran.returncode == 2 and ran.stdout == "" and ran.stderr.count("\n") == 1


def test_a_reader_that_leaves_early(train: pathlib.Path) -> None:
    for argv in ([], ["--format", "html"], ["--diff"]):
        with subprocess.Popen(
            [*COMMAND, str(train), *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as ran:
            assert ran.stdout is not None and ran.stderr is not None
            ran.stdout.close()
            assert ran.stderr.read() == ""
        assert ran.returncode == 141


def test_programs_are_the_same_for_every_hash_seed(train: pathlib.Path) -> None:
    texts = {
        process(
            train, "--role", "pserver0", "--format", "text", env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in "12"
    }
    assert len(texts) == 1 and "listen_and_serv" in texts.pop()


@pytest.mark.parametrize("shell", SHELLS)
def test_completion(shell: str) -> None:
    code, out, _ = call("--completion", shell)
    assert code == 0 and "grad_allreduce" in out and "min_block_size=" in out and "trainers" in out


def test_bash_completes() -> None:
    text = call("--completion", "bash")[1]
    text += "COMP_WORDS=(fluidlite-transpile --mode gra); COMP_CWORD=2\n"
    text += '_fluidlite_transpile; echo "${COMPREPLY[@]}"\n'
    assert subprocess.run(["bash", "-c", text], capture_output=True, text=True).stdout == "grad_allreduce\n"


def test_paddle_is_fluidlite_only_inside() -> None:
    with paddle_names():
        import paddle.fluid as inside  # type: ignore[import-not-found]
        import paddle.fluid.layers.nn as nn  # type: ignore[import-not-found]

        assert (
            inside is fluid
            and nn is fluid.layers.nn
            and nn.__name__ == nn.__spec__.name == "fluidlite.layers.nn"
        )
        import paddle  # type: ignore[import-not-found]

        assert paddle.__version__ == "1.8.5" and list(paddle.batch(lambda: iter([1, 2, 3]), 2)()) == [
            [1, 2],
            [3],
        ]
        with pytest.raises(FluidError, match="file .*images-idx3-ubyte.gz not found: put https"):
            paddle.dataset.mnist.train()()
    assert not [name for name in sys.modules if name.split(".")[0] == "paddle"]
