"""Proofs of fleet's strategies; `python tests/distributed/fleet_proofs.py` writes docs/STRATEGIES.md.

Each strategy is put to each network, its job runs with a thread for each process, and its parameters are
compared with those of the computation that it stands for; then the same with the processes of an `mpiexec`.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fluidlite.paddle as paddle
import fluidlite.paddle.nn.functional as F
from fluidlite import unique_name
from fluidlite.base.errors import UnsupportedError
from fluidlite.distributed.cluster import verify_job
from fluidlite.distributed.proof import Proof
from fluidlite.paddle.distributed import fleet
from fluidlite.transpiler.check.report import check

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "STRATEGIES.md"
MARKS = ("<!-- proofs -->\n", "<!-- /proofs -->\n")
PROCESSES = ("<!-- mpiexec -->\n", "<!-- /mpiexec -->\n")
STEPS, ROWS = 4, 8
Feeds = list[dict[str, Any]]


# ---------------------------------------------------------------------- networks
def mlp() -> tuple[Any, Any]:
    x, y = paddle.static.data("x", [None, 16]), paddle.static.data("y", [None, 1])
    hidden = paddle.static.nn.fc(x, 16, activation="tanh")
    return paddle.mean(F.square_error_cost(paddle.static.nn.fc(hidden, 1), y)), hidden


def lenet() -> tuple[Any, Any]:
    image, y = paddle.static.data("image", [None, 1, 12, 12]), paddle.static.data("y", [None, 1], "int64")
    first = F.max_pool2d(paddle.static.nn.conv2d(image, 4, 3, act="relu"), 2, 2)
    hidden = F.max_pool2d(paddle.static.nn.conv2d(first, 6, 2, act="relu"), 2, 2)
    guess = paddle.static.nn.fc(hidden, 5, activation="softmax")
    return paddle.mean(F.cross_entropy(guess, y, use_softmax=False)), hidden


def word2vec() -> tuple[Any, Any]:
    words = [paddle.static.data(f"word_{place}", [None, 1], "int64") for place in range(4)]
    table = paddle.ParamAttr(name="words")
    rows = [paddle.static.nn.embedding(word, [30, 6], is_sparse=True, param_attr=table) for word in words]
    flat = [paddle.reshape(row, [-1, 6]) for row in rows]
    hidden = paddle.static.nn.fc(paddle.concat(flat, axis=1), 8, activation="sigmoid")
    guess = paddle.static.nn.fc(hidden, 30, activation="softmax")
    y = paddle.static.data("y", [None, 1], "int64")
    return paddle.mean(F.cross_entropy(guess, y, use_softmax=False)), hidden


def ctr_dnn() -> tuple[Any, Any]:
    dense = paddle.static.data("dense", [None, 5])
    slots = [paddle.static.data(f"slot_{number}", [None, 1], "int64") for number in range(3)]
    table = paddle.ParamAttr(name="slots")
    rows = [paddle.static.nn.embedding(slot, [40, 4], is_sparse=True, param_attr=table) for slot in slots]
    flat = [dense, *(paddle.reshape(row, [-1, 4]) for row in rows)]
    hidden = paddle.static.nn.fc(paddle.concat(flat, axis=1), 12, activation="relu")
    guess = paddle.static.nn.fc(hidden, 2, activation="softmax")
    y = paddle.static.data("click", [None, 1], "int64")
    return paddle.mean(F.cross_entropy(guess, y, use_softmax=False)), hidden


def transformer() -> tuple[Any, Any]:
    x, y = paddle.static.data("x", [None, 4, 8]), paddle.static.data("y", [None, 1])
    query, value = (paddle.static.nn.fc(x, 8, num_flatten_dims=2) for _ in range(2))
    # a bias of the keys has no gradient: what is left of it is rounding
    key = paddle.static.nn.fc(x, 8, num_flatten_dims=2, bias_attr=False)
    weights = F.softmax(paddle.matmul(query, key, transpose_y=True) * 8**-0.5)
    seen = paddle.static.nn.layer_norm(x + paddle.matmul(weights, value), begin_norm_axis=2)
    wide = paddle.static.nn.fc(seen, 16, num_flatten_dims=2, activation="relu")
    hidden = paddle.static.nn.layer_norm(
        seen + paddle.static.nn.fc(wide, 8, num_flatten_dims=2), begin_norm_axis=2
    )
    return paddle.mean(F.square_error_cost(paddle.static.nn.fc(hidden, 1), y)), hidden


NETS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "MLP": mlp,
    "LeNet": lenet,
    "word2vec": word2vec,
    "ctr_dnn": ctr_dnn,
    "transformer": transformer,
}
_SHAPES = {"x": (16,), "image": (1, 12, 12), "dense": (5,)}


def batches(program: Any) -> Feeds:
    """Whole batches for what a program is fed with."""
    random = np.random.RandomState(0)
    fed = [var for var in program.global_block().vars.values() if var.is_data]
    return [{var.name: _drawn(random, var) for var in fed} for _ in range(STEPS)]


def _drawn(random: np.random.RandomState, var: Any) -> Any:
    shape = (ROWS, *var.shape[1:])
    if var.dtype.name == "INT64":
        return random.randint(0, 2 if var.name == "click" else 5, shape)
    return random.uniform(-1, 1, shape).astype("float32")


# ---------------------------------------------------------------------- strategies
def _sgd() -> Any:
    return paddle.optimizer.SGD(0.1)


def _momentum() -> Any:
    return paddle.optimizer.Momentum(0.05, 0.9)


def _adam() -> Any:
    return paddle.optimizer.Adam(0.01)


@dataclass(frozen=True)
class Case:
    """A strategy, the optimizer that it is put around, and the number of processes that train.

    servers: the number of servers; 0: the ranks exchange among themselves.
    tolerance: how far the results may be apart; half precision rounds the shares of ranks otherwise.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    optimizer: Callable[[], Any] = _sgd
    workers: int = 2
    servers: int = 0
    tolerance: float = 1e-5


_MERGE = {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}}
# a scale at which neither whole batches nor shares overflow
_AMP = {"amp": True, "amp_configs": {"init_loss_scaling": 128.0}}
# processes that train alone, on few rows each, drift apart by rounding
_HALF, _IN_ORDER, _ALONE = 2e-2, 1e-4, 1e-4
CASES: dict[str, Case] = {
    "defaults": Case(),
    "fuse_all_reduce_ops=False": Case({"fuse_all_reduce_ops": False}),
    "fuse_grad_size_in_num=2": Case({"fuse_grad_size_in_num": 2}),
    "fuse_grad_size_in_MB=1": Case({"fuse_grad_size_in_MB": 1}),
    "nccl_comm_num=2": Case({"nccl_comm_num": 2}),
    "use_hierarchical_allreduce": Case(
        {"use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2}, workers=4
    ),
    "without_graph_optimization=False": Case({"without_graph_optimization": False}),
    "sync_nccl_allreduce=False": Case({"sync_nccl_allreduce": False}),
    "fp16_allreduce": Case({"fp16_allreduce": True}),
    "find_unused_parameters": Case({"find_unused_parameters": True}),
    "localsgd": Case(
        {"localsgd": True, "localsgd_configs": {"k_steps": 2, "begin_step": 1}}, tolerance=_ALONE
    ),
    "adaptive_localsgd": Case({"adaptive_localsgd": True}, _momentum, tolerance=_ALONE),
    "gradient_merge": Case(_MERGE, _momentum),
    "recompute": Case({"recompute": True}),
    "lamb": Case({"lamb": True}, _adam),
    "lars": Case({"lars": True}, _momentum),
    "amp": Case(_AMP, tolerance=_HALF),
    "amp, gradient_merge, recompute": Case({"recompute": True, **_AMP, **_MERGE}, tolerance=_HALF),
    "gradient_merge, recompute, lars": Case({"recompute": True, "lars": True, **_MERGE}, _momentum),
    "gradient_merge, lamb": Case({"lamb": True, **_MERGE}, _adam),
    "recompute, lamb": Case({"recompute": True, "lamb": True}, _adam),
    "recompute, amp": Case({"recompute": True, **_AMP}, tolerance=_HALF),
    "localsgd, amp": Case({"localsgd": True, **_AMP}, tolerance=_HALF),
    "localsgd, recompute": Case({"localsgd": True, "recompute": True}, tolerance=_ALONE),
    "nccl_comm_num=2, use_hierarchical_allreduce": Case(
        {"nccl_comm_num": 2, "use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2},
        workers=4,
    ),
    "dgc": Case({"dgc": True}, _momentum),
    "sharding": Case({"sharding": True}),
    "pipeline": Case({"pipeline": True}),
    "tensor_parallel": Case({"tensor_parallel": True}),
    "a_sync=False": Case({"a_sync": False}, servers=2),
    "a_sync=False, lamb": Case({"a_sync": False, "lamb": True}, _adam, servers=2),
    "a_sync=False, lars": Case({"a_sync": False, "lars": True}, _momentum, servers=2),
    "a_sync=False, recompute": Case({"a_sync": False, "recompute": True}, servers=2),
    "a_sync=False, amp": Case({"a_sync": False, **_AMP}, servers=2),
    "a_sync": Case({"a_sync": True}, servers=2, tolerance=_IN_ORDER),
    "a_sync, k_steps=-1": Case(
        {"a_sync": True, "a_sync_configs": {"k_steps": -1}}, servers=2, tolerance=_IN_ORDER
    ),
    "a_sync, k_steps=2": Case(
        {"a_sync": True, "a_sync_configs": {"k_steps": 2}}, servers=2, tolerance=_IN_ORDER
    ),
    "a_sync=False, gradient_merge": Case({"a_sync": False, **_MERGE}, servers=2),
}


def proof(case: Case, net: Callable[[], tuple[Any, Any]]) -> Proof:
    """Put a strategy to a network, and prove its job."""
    seat, _, feeds = seated(case, net, role(case))
    report = check(seat.job())
    assert report.ok, str(report)
    return verify_job(seat.job(), feeds, case.tolerance)


def seated(
    case: Case, net: Callable[[], tuple[Any, Any]], who: Any
) -> tuple[fleet.Fleet, tuple[Any, Any], Feeds]:
    """The fleet of one process, its main and startup program, and whole batches for them."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    main.random_seed = startup.random_seed = 7
    seat = fleet.Fleet()
    with paddle.static.program_guard(main, startup), unique_name.guard():
        loss, hidden = net()
        strategy = fleet.DistributedStrategy()
        for name, value in case.fields.items():
            setattr(strategy, name, value)
        if strategy.recompute:
            strategy.recompute_configs = {"checkpoints": [hidden.name]}
        seat.init(who)
        feeds = batches(main)
        seat.distributed_optimizer(case.optimizer(), strategy).minimize(loss)
    return seat, (main, startup), feeds


def role(case: Case) -> fleet.UserDefinedRoleMaker:
    """The first worker; with servers the first server, which waits for nobody while it makes its programs."""
    workers = [f"127.0.0.1:{port}" for port in range(6170, 6170 + case.workers)]
    if not case.servers:
        return fleet.UserDefinedRoleMaker(is_collective=True, current_id=0, worker_endpoints=workers)
    servers = [f"127.0.0.1:{port}" for port in range(6270, 6270 + case.servers)]
    return fleet.UserDefinedRoleMaker(
        current_id=0, role=fleet.Role.SERVER, worker_num=case.workers, server_endpoints=servers
    )


# ---------------------------------------------------------------------- the table
def cell(case: Case, net: Callable[[], tuple[Any, Any]]) -> tuple[str, str]:
    """(the largest difference, the reference); ("", the reason) where the strategy is refused."""
    try:
        found = proof(case, net)
    except UnsupportedError as error:
        return "", str(error).splitlines()[0]
    # the estimate is of devices: hosts reduce half precision in single precision, twice the bytes
    right = max(found.differences.values()) <= case.tolerance if "amp" in case.fields else found.ok
    assert right, f"{case}\n{found}"
    return f"{max(found.differences.values()):.0e}", found.reference


def row(name: str) -> str:
    """A line of the table."""
    cells = [cell(CASES[name], net) for net in NETS.values()]
    reason = next((words for number, words in cells if not number), "")
    differences = " | ".join(number or "refused" for number, _ in cells)
    return f"| {name} | {differences} | {reason or cells[0][1]} |"


def table() -> str:
    """The table of all strategies and networks."""
    head = f"| strategy | {' | '.join(NETS)} | equal to, or reason |\n|---|{'---|' * (len(NETS) + 1)}\n"
    return head + "".join(f"{row(name)}\n" for name in CASES)


# ---------------------------------------------------------------------- the table of processes
_NUMBER = re.compile(r"\d\.\d+e[+-]\d\d")


def under_mpiexec(script: str, *arguments: str) -> str:
    """The output of four processes."""
    command = [str(shutil.which("mpiexec")), "-n", "4", sys.executable, str(HERE / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table_of_processes() -> str:
    """The table of strategies that are not refused, by the processes of an `mpiexec`."""
    lines = [line.rpartition(": ") for line in under_mpiexec("fleet_mpi_job.py").splitlines()]
    found = {case: number for case, _, number in lines}
    for name in (name for name, case in CASES.items() if case.servers and not is_refused(name, "MLP")):
        for net in NETS:
            apart = max(map(float, _NUMBER.findall(under_mpiexec("fleet_served_mpi_job.py", name, net))))
            assert apart <= CASES[name].tolerance, (name, net, apart)
            found[f"{name}, {net}"] = f"{apart:.0e}"
    proven = [name for name in CASES if any(f"{name}, {net}" in found for net in NETS)]
    rows = [[name, *(found.get(f"{name}, {net}", "refused") for net in NETS)] for name in proven]
    head = ["strategy", *NETS]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def is_refused(name: str, net: str) -> bool:
    """True if a strategy cannot be had on a network."""
    return not cell(CASES[name], NETS[net])[0]


def between(marks: tuple[str, str]) -> str:
    """The lines of the page between two marks."""
    return PAGE.read_text(encoding="utf8").partition(marks[0])[2].partition(marks[1])[0]


def write(marks: tuple[str, str], text: str) -> None:
    """Put a text between two marks of the page."""
    page = PAGE.read_text(encoding="utf8")
    before, after = page.partition(marks[0])[0], page.partition(marks[1])[2]
    PAGE.write_text(before + marks[0] + text + marks[1] + after, encoding="utf8")


def main() -> None:
    write(MARKS, table())
    write(PROCESSES, table_of_processes())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
