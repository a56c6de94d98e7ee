"""`fluidlite-transpile --verify`: batches for any program, the proof, exit codes, and what is said when
something is wrong.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from test_cli import HEAD, NET, call, fails, script

import fluidlite as fluid
from fluidlite.cli.capture import capture_script
from fluidlite.distributed.feeds import data_variables, random_feeds
from fluidlite.errors import TranspilerError
from fluidlite.ir.printing import program_text

LOOP = """
import numpy as np
exe = fluid.Executor(fluid.CUDAPlace(0)); exe.run(fluid.default_startup_program())
for step in range(4):
    exe.run(feed={"x": np.full((6, 20), step, "float32"), "y": np.ones((6, 1), "float32")}, fetch_list=[loss])
"""


@pytest.fixture
def train(tmp_path: pathlib.Path) -> pathlib.Path:
    return script(tmp_path, HEAD + NET + LOOP)


MODES = [
    ["--mode", mode]
    for mode in (
        "pserver",
        "nccl2",
        "grad_allreduce",
        "local_sgd",
        "single_process_multi_thread",
        "multi_thread",
    )
]


@pytest.mark.parametrize("mode", [*MODES, ["--async"], ["--async", "--seed", "3"]], ids=" ".join)
def test_every_mode(mode: list[str], train: pathlib.Path) -> None:
    code, out, _ = call(train, "--verify", "--steps", "3", "--batch", "4", "--trainers", "3", *mode)
    assert code == 0 and out.endswith("\nok\n") and "3 trainers" in out and "3 steps: equal to" in out
    code, out, _ = call(train, "--verify", "--format", "json", "--feeds", "script", "--steps", "2", *mode)
    said = json.loads(out)
    assert (
        code == 0
        and said["ok"]
        and said["steps"] == 2
        and set(said["differences"]) == {"fc_0.w_0", "fc_0.b_0"}
    )
    assert all(link["ok"] for link in said["links"])


def test_exit_code_of_a_job_that_differs(tmp_path: pathlib.Path) -> None:
    noisy = NET.replace("SGD(0.1)", "Dpsgd(0.1, clip=10.0, batch_size=16.0, sigma=1.0)")
    code, out, _ = call(script(tmp_path, HEAD + noisy + LOOP), "--verify")  # each server draws its own noise
    assert code == 1 and "NOT EQUAL" in out and "TOO LARGE" in out and out.endswith("FAILED\n")


def test_a_job_that_differs_by_design(tmp_path: pathlib.Path) -> None:
    dropping = NET.replace("fluid.layers.fc(x, 1)", "fluid.layers.fc(fluid.layers.dropout(x, 0.5), 1)")
    code, out, _ = call(script(tmp_path, HEAD + dropping + LOOP), "--verify")
    assert code == 0 and "the mean of the gradients of the trainers' shares" in out and out.endswith("ok\n")
    assert "not to one process on the whole batches, by design: op 'dropout'" in out


def test_batches_of_the_script(train: pathlib.Path) -> None:
    found = capture_script(str(train), [], batches=3)
    assert [float(feed["x"][0, 0]) for feed in found.feeds] == [0.0, 1.0, 2.0]
    assert "fed 4 batches to its training program, but 9 are needed" in fails(
        train, "--verify", "--feeds", "script", "--steps", "9"
    )
    assert capture_script(str(train), []).feeds == ()


def test_a_program_from_a_file(train: pathlib.Path, tmp_path: pathlib.Path) -> None:
    call(train, "-o", tmp_path / "out")
    found = capture_script(str(train), [])
    for name, program in (("main.txt", found.main), ("startup.txt", found.startup)):
        (tmp_path / name).write_text(program_text(program), encoding="utf8")
    code, out, _ = call(tmp_path / "main.txt", "--startup", tmp_path / "startup.txt", "--verify")
    assert code == 0 and "fc_0.w_0" in out


def test_mistakes(train: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "--steps, --feeds and --seed can only be used with --verify" in fails(train, "--steps", "3")
    assert "no feeds 'scrpt'; did you mean 'script'" in fails(train, "--verify", "--feeds", "scrpt")
    assert "cannot be combined with" in fails(train, "--verify", "--plan")
    assert "cannot be combined with" in fails(train, "--verify", "--format", "dot")
    assert "at most 64" in fails(train, "--verify", "--trainers", "100")
    assert "the 6 rows" in fails(train, "--verify", "--feeds", "script", "--steps", "2", "--trainers", "4")
    gather = NET.replace("fluid.layers.fc(x, 1)", "fluid.layers.fc(fluid.layers.reshape(x, [7, 20]), 1)")
    wrong = script(tmp_path, HEAD + gather + LOOP, "wrong.py")
    assert "the program does not run on random batches (try --feeds script): " in fails(wrong, "--verify")


# ---------------------------------------------------------------------- random batches
def built(net: Any) -> fluid.Program:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        net()
    return main


def test_integers_are_below_what_they_choose_from() -> None:
    def net() -> None:
        word, label, place = (fluid.data(name, [None, 1], "int64") for name in ("word", "label", "place"))
        rows = fluid.layers.embedding(fluid.layers.reshape(word, [-1, 1]), [50, 4])
        spread = fluid.layers.one_hot(place, 7)
        score = fluid.layers.fc([rows, spread], 3, act="softmax")
        fluid.layers.cross_entropy(score, label)

    feeds = random_feeds(built(net), 64, 3)
    assert [sorted(feed) for feed in feeds] == [["label", "place", "word"]] * 3
    for name, limit in (("word", 50), ("label", 3), ("place", 7)):
        values = np.concatenate([feed[name] for feed in feeds])
        assert (
            values.dtype == np.int64
            and values.min() >= 0
            and limit - 4 <= values.max() < limit
            and values.shape == (192, 1)
        )
    assert not np.array_equal(feeds[0]["word"], feeds[1]["word"])


def test_shapes_types_and_sequences() -> None:
    def net() -> None:
        steps = fluid.layers.data("steps", [1], dtype="int64", lod_level=1)
        flag, part = fluid.data("flag", [None, 2], "bool"), fluid.data("part", [None, 3, -1], "float64")
        click = fluid.data("click", [None, 1], "float32")
        fluid.layers.sequence_pool(fluid.layers.embedding(steps, [9, 4]), "sum")
        fluid.layers.reduce_sum(part), fluid.layers.logical_not(flag)
        fluid.layers.sigmoid_cross_entropy_with_logits(fluid.layers.fc(click, 1), click)

    (feed,) = random_feeds(built(net), 5, 1, sequence=3)
    assert feed["steps"].recursive_sequence_lengths() == [[3] * 5] and np.array(feed["steps"]).shape == (
        15,
        1,
    )
    assert (
        feed["flag"].dtype == np.bool_
        and feed["part"].dtype == np.float64
        and feed["part"].shape == (5, 3, 3)
    )
    assert 0 <= feed["click"].min() <= feed["click"].max() <= 1


def test_programs_that_cannot_be_fed() -> None:
    with pytest.raises(TranspilerError, match="has no feeds"):
        random_feeds(built(lambda: fluid.layers.fill_constant([1], "float32", 1.0)), 4, 1)
    assert data_variables(fluid.Program()) == []


def test_sequences_are_shared() -> None:
    from fluidlite.distributed.shares import share

    value = fluid.create_lod_tensor(np.arange(10).reshape(10, 1), [[2, 2], [1, 2, 3, 4]], fluid.CPUPlace())
    first, second = (share({"x": value}, index, 2)["x"] for index in (0, 1))
    assert first.recursive_sequence_lengths() == [[2], [1, 2]] and np.array(first).ravel().tolist() == [
        0,
        1,
        2,
    ]
    assert second.recursive_sequence_lengths() == [[2], [3, 4]] and np.array(second).ravel().tolist() == [
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]
