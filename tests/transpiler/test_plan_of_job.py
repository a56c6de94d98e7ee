"""The estimated cost of a job, against arithmetic by hand and against the programs themselves."""

from __future__ import annotations

import math
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import fluidlite as fluid
from fluidlite.errors import TranspilerError
from fluidlite.ir.flops import flops_of
from fluidlite.transpiler.check.reading import read_trainer
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.cost.estimate import CostEstimate, estimate
from fluidlite.transpiler.cost.facts import Sizes, peak_activations
from fluidlite.transpiler.cost.model import CostRow, Port
from fluidlite.transpiler.modes import Job, make_job

PORT = Port(latency_s=1e-4, bytes_per_s=1e9)
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "COST.md"


def programs(build: Callable[[], Any]) -> tuple[Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        build()
    return main, startup


def job_of(
    build: Callable[[], Any],
    mode: str = "pserver",
    trainers: int = 2,
    servers: int = 2,
    sync: bool = True,
    **config: Any,
) -> Job:
    main, startup = programs(build)
    return make_job(main, startup, mode, trainers, servers, sync, DistributeTranspilerConfig.make(**config))


def square_error(guess: Any) -> Any:
    y = fluid.data("y", [None, 1])
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y))


def two_fc() -> None:
    """The example of docs/COST.md."""
    x = fluid.data("x", [None, 1000])
    hidden = fluid.layers.fc(x, 1000, bias_attr=False, param_attr=fluid.ParamAttr(name="fc_w"))
    fluid.optimizer.SGD(0.1).minimize(square_error(fluid.layers.fc(hidden, 1)))


def mlp() -> None:
    """784 -> 256 -> 10 with Adam."""
    x, label = fluid.data("x", [None, 784]), fluid.data("label", [None, 1], "int64")
    guess = fluid.layers.fc(fluid.layers.fc(x, 256, act="relu"), 10, act="softmax")
    fluid.optimizer.Adam(0.001).minimize(fluid.layers.mean(fluid.layers.cross_entropy(guess, label)))


def table(is_sparse: bool = True) -> Callable[[], None]:
    """26 ids of a sample in a table of 10000 x 16, then 16 -> 1."""

    def build() -> None:
        ids = fluid.data("ids", [None, 26], "int64")
        rows = fluid.embedding(
            ids, [10000, 16], is_sparse=is_sparse, param_attr=fluid.ParamAttr(name="table")
        )
        fluid.optimizer.SGD(0.1).minimize(
            square_error(fluid.layers.fc(fluid.layers.reduce_sum(rows, dim=1), 1))
        )

    return build


def rows_of(found: CostEstimate) -> dict[str, CostRow]:
    return {row.role: row for row in found.table()}


# ---------------------------------------------------------------------- the example of the docs
def test_example_with_servers() -> None:
    found = estimate(job_of(two_fc), PORT, batch=32, flops=1e11)
    trainer, first, second = found.table()
    assert (trainer.bytes_out, trainer.bytes_in, trainer.messages) == (4_004_004, 4_004_004, 12)
    assert (first.parameters, second.parameters) == (2_000_004, 2_004_000)
    assert (second.bytes_out, second.bytes_in, second.messages) == (4_008_000, 4_008_000, 12)
    assert second.seconds == pytest.approx(9.216e-3) and found.bottleneck == "pserver1"
    assert trainer.seconds == pytest.approx(9.208008e-3 + 1.28192e-3)
    assert found.flops == 128_192_000 and (found.facts.forward_flops, found.facts.backward_flops) == (
        64_064_000,
        64_128_000,
    )
    assert found.step_s == pytest.approx(10.49792e-3)
    assert trainer.activations == 4_256_000
    assert [(item.sender, item.receiver, item.bytes, item.messages) for item in found.links] == [
        ("trainer0", "pserver0", 2_000_004, 6),
        ("pserver0", "trainer0", 2_000_004, 6),
        ("trainer0", "pserver1", 2_004_000, 6),
        ("pserver1", "trainer0", 2_004_000, 6),
    ]


def test_example_without_servers() -> None:
    found = estimate(job_of(two_fc, "grad_allreduce", 4), PORT, batch=32, flops=1e11)
    (row,) = found.table()
    assert (row.role, row.bytes_out, row.messages) == ("trainer0..3", 6_006_006, 18)
    assert found.step_s == pytest.approx(9.087926e-3)


def test_the_docs_say_these_numbers() -> None:
    bold = re.findall(r"\*\*([\d.,]+)\*\*", DOCS.read_text(encoding="utf8"))
    assert bold == [
        "4,004,004",
        "12",
        "9.216",
        "128,192,000",
        "10.49792",
        "4,256,000",
        "6,006,006",
        "18",
        "9.087926",
    ]


# ---------------------------------------------------------------------- memory
def test_adam_on_servers() -> None:
    """fc_0.w_0 in two slices; b_0 256, w_1 2560, b_1 10 elements whole: with beta powers, 8 bytes a slice."""
    found = estimate(job_of(mlp), PORT, batch=64)
    elements = 784 * 256 + 256 + 256 * 10 + 10
    assert sum(row.parameters for row in found.table()[1:]) == elements * 4
    assert sum(row.state for row in found.table()[1:]) == 2 * elements * 4 + 5 * 8
    assert (
        found.table()[0].state == 0 and found.table()[0].parameters == elements * 4 + 4
    )  # and a learning rate


def test_adam_without_servers() -> None:
    (row,) = estimate(job_of(mlp, "grad_allreduce"), PORT, batch=64).table()
    elements = 784 * 256 + 256 + 256 * 10 + 10
    assert row.state == 2 * elements * 4 + 4 * 8
    (snapshots,) = estimate(job_of(mlp, "local_sgd"), PORT, batch=64).table()
    assert snapshots.state - row.state == elements * 4


def test_rows_are_what_the_programs_hold() -> None:
    job = job_of(mlp, servers=3)
    found = rows_of(estimate(job, PORT, batch=64))
    for role in job.roles[job.trainers :]:
        programs = job.programs(role)
        held = [
            var
            for var in programs.startup.global_block().vars.values()
            if any(var.name in op.output_arg_names for op in programs.startup.global_block().ops)
        ]
        row = found[role.name]
        rates = sum(4 for var in held if "learning_rate" in var.name)
        assert row.parameters + row.state + rates == sum(math.prod(var.shape) * 4 for var in held)
        assert row.ops == sum(len(block.ops) for block in programs.main.blocks)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("build", [two_fc, mlp, table(False)])
def test_bytes_are_what_the_program_sends(build: Callable[[], None], sync: bool) -> None:
    job = job_of(build, trainers=3, servers=3, sync=sync)
    trainer = read_trainer(job.roles[0], job.trainer(0))
    row = estimate(job, PORT).table()[0]
    assert row.bytes_out == sum(math.prod(piece.shape or ()) * 4 for piece in trainer.sent)
    assert row.bytes_in == sum(math.prod(piece.shape or ()) * 4 for piece in trainer.fetched)
    barriers = sum(len(site.op.attrs["endpoints"]) for site in trainer.barriers)
    assert row.messages == len(trainer.sent) + len(trainer.fetched) + barriers
    assert row.ops == len(job.trainer(0).main.global_block().ops)


def test_activations_grow_with_the_batch() -> None:
    main, _ = programs(two_fc)
    small, large = (peak_activations(main, Sizes(batch)) for batch in (32, 3200))
    # x and a gradient of its size a sample, and each parameter's gradient until its update; in the larger one
    # an earlier op holds more
    assert small == 2 * 128_000 + 4_000_000 + 4_000 + 4
    assert 2 * 12_800_000 + 4_004_004 <= large <= 4 * 12_800_000 + 4_004_004


# ---------------------------------------------------------------------- FLOPs
def test_flops_of_a_convolution() -> None:
    def build() -> None:
        image = fluid.data("image", [None, 3, 8, 8])
        fluid.layers.conv2d(image, 16, 3, padding=1, groups=1, bias_attr=False)

    main, _ = programs(build)
    conv = next(op for op in main.global_block().ops if op.type == "conv2d")
    assert flops_of(conv, Sizes(4).shape) == 2 * (4 * 16 * 8 * 8) * (3 * 3 * 3)


def test_flops_of_stacked_matrices() -> None:
    def build() -> None:
        x, y = fluid.data("x", [None, 5, 7]), fluid.data("y", [None, 9, 7])
        fluid.layers.matmul(x, y, transpose_y=True)

    main, _ = programs(build)
    assert flops_of(main.global_block().ops[0], Sizes(3).shape) == 3 * 2 * 5 * 7 * 9


# ---------------------------------------------------------------------- sparse tables
def test_sparse_table_on_servers() -> None:
    """32 x 26 = 832 rows of 16 floats: each goes out as 8 bytes of id, and 64 + 8 of gradient, and comes
    in as 64.
    """
    dense = 16 * 4 + 4  # fc 16 -> 1
    row = estimate(job_of(table()), PORT, batch=32).table()[0]
    assert row.bytes_out == pytest.approx(832 * (8 + 64 + 8) + dense)
    assert row.bytes_in == pytest.approx(832 * 64 + dense)
    assert row.messages == 2 * 2 + 2 * 2 + 2 * 2  # two shards, two dense parameters, barriers of two servers
    assert row.parameters == dense + 4  # the table stays on the servers


def test_sparse_gradients_are_gathered() -> None:
    (row,) = estimate(job_of(table(), "nccl2", 4), PORT, batch=32).table()
    assert row.bytes_out == pytest.approx(3 * 832 * (64 + 8) + 2 * 3 / 4 * (16 * 4 + 4))
    (dense,) = estimate(job_of(table(False), "nccl2", 4), PORT, batch=32).table()
    assert dense.bytes_out == pytest.approx(2 * 3 / 4 * (10000 * 16 * 4 + 16 * 4 + 4))


def test_sequences_count_their_steps() -> None:
    def build() -> None:
        ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        rows = fluid.embedding(ids, [10000, 16], is_sparse=True)
        fluid.optimizer.SGD(0.1).minimize(
            square_error(fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), 1))
        )

    job = job_of(build)
    assert [estimate(job, PORT, batch=32, sequence=steps).facts.tensors[0].rows for steps in (1, 20)] == [
        32,
        640,
    ]


# ---------------------------------------------------------------------- modes
def test_buckets_save_messages() -> None:
    alone, together = (
        estimate(job_of(mlp, "grad_allreduce", 8, bucket_bytes=size), PORT).table()[0]
        for size in (0, 1 << 20)
    )
    assert alone.bytes_out == pytest.approx(together.bytes_out)
    assert (alone.messages, together.messages) == (4 * 14, 14)


def test_hierarchical_all_reduce() -> None:
    """Eight ranks in groups of four: the leader takes part in a reduction, an all-reduce of two, a
    broadcast.
    """
    (row,) = estimate(
        job_of(two_fc, "nccl2", 8, use_hierarchical_allreduce=True, hierarchical_allreduce_inter_nranks=4),
        PORT,
    ).table()
    assert row.bytes_out == pytest.approx(4_004_004 * (1 + 2 * 1 / 2 + 1)) and row.messages == 3 * (3 + 2 + 3)


def test_asynchronous_steps_overlap() -> None:
    found = estimate(job_of(two_fc, sync=False), PORT, compute_s=0.1)
    assert found.step_s == 0.1
    assert found.table()[0].messages == 8  # no barriers
    idle = estimate(job_of(two_fc, sync=False), PORT)
    assert idle.step_s == pytest.approx(max(8 * 1e-4 + 4_004_004 / 1e9, 2 * (4 * 1e-4 + 2_004_000 / 1e9)))


def test_geo_exchanges_now_and_then() -> None:
    row = estimate(
        job_of(two_fc, "geo_sgd", sync=False, geo_sgd_mode=True, geo_sgd_need_push_nums=10), PORT
    ).table()[0]
    assert row.bytes_out == pytest.approx(4_004_004 / 10) and row.messages == pytest.approx(8 / 10)


def test_one_trainer_sends_nothing_to_itself() -> None:
    found = estimate(job_of(two_fc, "nccl2", 1), PORT, compute_s=1.0)
    assert found.step_s == 1.0 and found.links == () and found.table()[0].bytes_out == 0


def test_an_idle_server_costs_barriers_only() -> None:
    found = rows_of(estimate(job_of(two_fc, servers=6, slice_var_up=False), PORT))
    idle = [row for row in found.values() if row.role.startswith("pserver") and not row.parameters]
    assert idle and all((row.bytes_in, row.messages) == (0, 4) for row in idle)


def test_scaling_agrees_with_the_plan_of_each_job() -> None:
    lines = {
        (line.mode, line.trainers): line
        for line in estimate(job_of(two_fc), PORT, flops=1e11).scaling((2, 5, 16), servers=2)
    }
    for mode, sync in (("pserver", True), ("pserver", False), ("grad_allreduce", True), ("local_sgd", True)):
        for count in (2, 5, 16):
            alone = estimate(job_of(two_fc, mode, count, sync=sync), PORT, flops=1e11)
            line = lines[mode if sync else "async", count]
            assert line.seconds == pytest.approx(alone.step_s) and line.bytes_out == pytest.approx(
                alone.table()[0].bytes_out
            )
            assert line.samples_per_s == pytest.approx(count * 32 / alone.step_s)


def test_scaling_shows_where_servers_are_full() -> None:
    """A server's port carries all trainers, a ring's does not."""
    found = estimate(job_of(two_fc), PORT).scaling((2, 2000), ("pserver", "grad_allreduce"))
    few, many, ring, wide_ring = (line.seconds for line in found)
    assert many > 500 * few and many > 5 * wide_ring > 5 * ring


# ---------------------------------------------------------------------- size and mistakes
def test_ten_thousand_trainers_and_a_thousand_servers() -> None:
    """Processor time, which other people on the machine do not lengthen."""
    code = """
import time
import fluidlite as fluid
from fluidlite.transpiler.cost.estimate import estimate
from fluidlite.transpiler.modes import make_job
x = fluid.data("x", [None, 2000])
for _ in range(10):
    x = fluid.layers.fc(x, 2000, act="relu")
fluid.optimizer.Adam(0.01).minimize(fluid.layers.mean(fluid.layers.fc(x, 1)))
start = time.process_time()
job = make_job(fluid.default_main_program(), fluid.default_startup_program(), "pserver", 10000, 1000)
found = estimate(job, flops=1e12)
lines = found.scaling()
status = open("/proc/self/status").read()  # `ru_maxrss` would count what the tests' process had held
kilobytes = int(status.split("VmHWM:")[1].split()[0])
print(time.process_time() - start, kilobytes / 1024, len(found.table()), len(lines))
"""
    seconds, megabytes, rows, lines = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert float(seconds) < 5 and float(megabytes) < 200
    assert (int(rows), int(lines)) == (1001, 78)


@pytest.mark.parametrize(
    "arguments",
    [{"batch": 0}, {"sequence": 0}, {"flops": -1.0}, {"compute_s": -1.0}, {"flops": 1.0, "compute_s": 1.0}],
)
def test_mistakes(arguments: dict[str, Any]) -> None:
    with pytest.raises(TranspilerError):
        estimate(job_of(two_fc), PORT, **arguments)


def test_mistakes_in_links_and_modes() -> None:
    with pytest.raises(TranspilerError, match="positive speed"):
        Port(1e-4, 0.0)
    with pytest.raises(TranspilerError, match="did you mean 'local_sgd'"):
        estimate(job_of(two_fc), PORT).scaling(modes=["local_sdg"])
    with pytest.raises(TranspilerError, match="positive numbers"):
        estimate(job_of(two_fc), PORT).scaling([0])
