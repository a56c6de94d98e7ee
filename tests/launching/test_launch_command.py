"""`fluidlite-launch`: mistakes in one line, and jobs with the output of all processes."""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
import sys

import pytest
from launcher import launch
from waiting import LIMIT, until

from fluidlite.cli.launch import main

HERE = pathlib.Path(__file__).parent
SERVED = str(HERE.parent / "distributed" / "fleet_script.py")
ALONE = """
import os, signal, sys, time
import numpy as np
import fluidlite as fluid
loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
exe.run(feed={"x": np.ones([2, 4], "float32")}, fetch_list=[loss])
print("50%\\r100%\\r\\ndone", *sys.argv[1:], end="")
if "wait" in sys.argv:
    print(flush=True)
    time.sleep(60)
if "all" in sys.argv:
    os._exit(0)
if os.environ["PADDLE_TRAINER_ID"] == "1":
    if "leave" in sys.argv:
        os._exit(0)
    if "fail" in sys.argv:
        exe.run(feed={"x": np.ones([2, 5], "float32")}, fetch_list=[loss])
    if "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with scripts, where the command runs."""
    (tmp_path / "train.py").write_text(ALONE, encoding="utf8")
    (tmp_path / "logs").write_text("its folder does not exist", encoding="utf8")
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_JOB_ID", "PBS_NODEFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


# ---------------------------------------------------------------------- mistakes
@pytest.mark.parametrize(
    "line, says",
    [
        ("", "no script is given"),
        ("train.py", "the number of trainers is not given: add for example -n 4"),
        (
            "train.py -n 4",
            "the number of trainers is not given: add for example -n 4 (options come before the script)",
        ),
        ("-n", "-n/--trainers: expected one argument"),
        ("-n 0 train.py", "'0' is not an integer between 1 and 4096"),
        ("-n two train.py", "'two' is not an integer"),
        ("-n 2 trian.py", "no such file: trian.py; did you mean 'train.py'?"),
        ("-n 2 .", ". is a folder: give the path of a script in it"),
        ("-n 2 --pserver 1 train.py", "no option '--pserver'; did you mean '--pservers'?"),
        ("-n 2 --pservers -1 train.py", "--pservers: '-1' is not an integer"),
        ("-n 2 --slurm --kubernetes train.py", "--slurm and --kubernetes start a job in different ways"),
        ("-n 2 --slurm --hosts a,b train.py", "--slurm and --hosts start a job in different ways"),
        ("-n 2 --hosts a,,b train.py", "--hosts is 'a,,b', but should be"),
        ("-n 2 --hosts a,a train.py", "--hosts names a twice"),
        ("-n 2 --host a train.py", "give --hosts as well"),
        ("-n 2 --hosts a,b --host c train.py", "--host is c, which is not in --hosts a,b"),
        ("-n 3 --hosts a,b --host a train.py", "3 trainers cannot be divided evenly among 2 hosts"),
        ("-n 2 --devices x train.py", "--devices is 'x', but should be"),
        ("-n 3 --devices 0,1 train.py", "-n is 3, but --devices names 2"),
        ("-n 2 --start-port 99999 train.py", "'99999' is not a port number"),
        ("-n 2 --kubernetes --name A_b train.py", "Kubernetes takes small letters"),
        ("-n 2 --image x train.py", "--image can only be used with --kubernetes"),
        ("-n 2 --name x train.py", "--name can only be used with --slurm and --kubernetes"),
        ("-n 1 --log-dir logs train.py", "logs: File exists"),
        ("-n 2 --hosts b,a --host a train.py", "run the command only there"),
    ],
)
def test_mistakes_are_one_line(
    line: str, says: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("fluidlite-launch: ") and err.count("\n") == 1
    assert says in err


def test_job_files_go_to_stdout(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--slurm", "--kubernetes", "--hosts=a,b"):
        assert main(["-n", "2", "--pservers", "1", option, "not_here.py", "-n", "7"]) == 0
        out, err = capsys.readouterr()
        assert "not_here.py" in out and err == ""
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "examples:" in capsys.readouterr().out


# ---------------------------------------------------------------------- jobs
def test_servers_and_trainers_under_their_names(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "-n", "2", "--pservers", "1", "--log-dir", "logs", SERVED)
    assert done.returncode == 0 and done.stderr == "", done
    lines = done.stdout.splitlines()
    assert lines[0].startswith("pserver0 | listening at 127.0.0.1:")
    assert {"trainer0 | worker 0 of 2 is done", "trainer1 | worker 1 of 2 is done"} <= set(lines)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "pserver0.log",
        "trainer0.log",
        "trainer1.log",
    ]


def test_one_process_needs_no_hint(folder: pathlib.Path) -> None:
    done = launch(folder, "-n", "1", "-m", "train", "--a", "b")
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout == "trainer0 | 100%\ntrainer0 | done --a b\n"


class TestRanks:
    pytestmark = pytest.mark.mpi

    def test_a_script_without_a_job_gets_one_hint(self, folder: pathlib.Path) -> None:
        done = launch(folder, "-n", "2", "train.py")
        assert done.returncode == 0 and done.stderr == "", done
        assert done.stdout.count("hint: each of the 2 ranks trains on its own") == 1
        assert {"trainer0 | done", "trainer1 | done"} <= set(done.stdout.splitlines())

    def test_the_summary_has_the_users_lines_only(self, folder: pathlib.Path) -> None:
        done = launch(folder, "-n", "2", "train.py", "fail")
        assert done.returncode == 1, done
        lines = done.stderr.splitlines()
        assert lines[0] == "trainer1 failed with exit code 1, and the others were ended:"
        assert lines[1].startswith("Traceback") and "train.py" in lines[2] and len(lines) < 12
        assert "executor" not in done.stderr and "FeedError" in done.stderr

    def test_a_rank_that_is_killed_is_named(self, folder: pathlib.Path) -> None:
        done = launch(folder, "-n", "2", "train.py", "kill")
        assert done.returncode == 9, done
        # on a machine that is busy all of them may be dead before one is seen to be
        first = done.stderr.splitlines()[0]
        assert re.match("(trainer1|the ranks) ended with exit code 9, and the others were ended", first)

    def test_a_rank_that_leaves_the_others_is_named(self, folder: pathlib.Path) -> None:
        done = launch(folder, "-n", "2", "train.py", "leave")
        assert done.returncode == 1, done
        assert done.stderr.endswith(
            "trainer1 exited with code 0 in the middle of the job without an error, as os._exit(0) does, "
            "and the others were ended\n"
        )

    def test_ranks_that_all_leave_mean_it(self, folder: pathlib.Path) -> None:
        done = launch(folder, "-n", "2", "train.py", "all")
        assert done.returncode == 0 and "ended" not in done.stderr, done

    def test_ctrl_c_is_one_line(self, folder: pathlib.Path) -> None:
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "fluidlite.cli.launch",
                "-n",
                "2",
                "--log-dir",
                "kept",
                "train.py",
                "wait",
            ],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            logs = [folder / "kept" / f"trainer{number}.log" for number in range(2)]
            until(lambda: all(log.is_file() and "done" in log.read_text() for log in logs))
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=LIMIT)
        assert child.returncode == 130
        assert said == "fluidlite-launch: interrupted; all 2 processes have ended\n"
