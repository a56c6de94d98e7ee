"""The collective functions of 2.x over threads and over the stand-in for NCCL; what goes wrong; objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_cases import CASES, Case, building, check_arrays, check_program, dist, groups, ring_of
from fake_nccl import device, modules

import fluidlite as fluid
from fluidlite import paddle
from fluidlite.errors import ArgumentError, CommunicatorError, UnsupportedError
from fluidlite.executor.comm import current
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.executor.comm.nccl import rings as nccl
from fluidlite.transpiler.check.report import check
from fluidlite.transpiler.parts.roles import JobRole, Programs


def together(size: int, work: Callable[[int], Any]) -> list[Any]:
    """The results of `work(rank)` in each of `size` threads."""
    found = run_roles(LocalNetwork(), [(f"rank{rank}", lambda rank=rank: work(rank)) for rank in range(size)])
    return [found[f"rank{rank}"] for rank in range(size)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_over_threads(case: Case) -> None:
    def work(rank: int) -> None:
        for group in groups(4):
            check_arrays(case, group)
            check_program(case, group)

    together(4, work)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_over_nccl(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    found = modules()
    monkeypatch.setattr(nccl, "cupy_and_nccl", lambda: found)

    def work(rank: int) -> None:
        for group in groups(4):
            session: Any = current()
            session.replace_ring(nccl.NcclRing(ring_of(group.id)))
            assert group.backend == "NCCL"
            check_arrays(case, group, device)

    together(4, work)


# ---------------------------------------------------------------------- groups
def test_groups_are_values() -> None:
    def work(rank: int) -> Any:
        everybody = dist.init_parallel_env()
        assert dist.is_initialized() and dist.get_group() is everybody
        pair = dist.new_group([2, 0])
        assert dist.get_group(pair.id) is pair and pair.ranks == [0, 2] and pair.backend == "LOCAL"
        assert pair.get_group_rank(2) == (1 if rank in (0, 2) else -1)
        dist.destroy_process_group(pair)
        with pytest.warns(UserWarning, match=f"Group {pair.id} is not initialized"):
            assert dist.get_group(pair.id) is None
        return dist.get_rank(), dist.get_world_size(), dist.get_rank(pair), dist.get_world_size(pair)

    assert together(3, work) == [(0, 3, 0, 2), (1, 3, -1, -1), (2, 3, 1, 2)]


def test_a_rank_that_is_no_member_does_nothing() -> None:
    def work(rank: int) -> Any:
        dist.init_parallel_env()
        pair = dist.new_group([0, 1])
        value = np.array([1.0])
        dist.all_reduce(value, group=pair)
        dist.all_gather_object([], "x", group=pair)
        return value[0]

    assert together(3, work) == [2, 2, 1]


def test_a_process_alone_is_a_group_of_one() -> None:
    dist.init_parallel_env()
    value = np.array([3.0])
    dist.all_reduce(value, dist.ReduceOp.AVG)
    found: list[Any] = []
    dist.all_gather(found, value)
    assert value[0] == 3 and found[0][0] == 3 and dist.get_backend() == "LOCAL"
    dist.destroy_process_group()
    assert not dist.is_initialized()


@pytest.mark.parametrize("ranks", [[0, 3], [1, 1], []], ids=str)
def test_groups_that_cannot_be(ranks: list[int]) -> None:
    def work(rank: int) -> None:
        with pytest.raises(ValueError, match="the ranks of the job are 0 to 1"):
            dist.new_group(ranks)

    together(2, work)


def checked(job: int, reduces: Callable[[Any, int, Any], Any], from_file: bool = False) -> str:
    """Findings of the static check in a job of `job` trainers, four of which run here: all of them average
    their gradients, and `reduces` uses the groups {0, 1}, {2, 3} and that of all.
    """

    def work(rank: int) -> Programs:
        dist.init_parallel_env()
        groups = dist.new_group([0, 1]), dist.new_group([2, 3]), dist.new_group()
        programs = Programs(paddle.static.Program(), paddle.static.Program())
        with building(programs.main, programs.startup):
            x = paddle.static.data("x", [8, 4])
            loss = paddle.mean(paddle.static.nn.fc(x, 1))
            optimizer = paddle.optimizer.SGD(0.1)
            grads = optimizer.backward(loss)
            for _, grad in grads:
                dist.all_reduce(grad, dist.ReduceOp.AVG)
            reduces(paddle.mean(x), rank, groups)
            optimizer.apply_gradients(grads)
        if from_file:
            texts = [program.desc.serialize_to_string() for program in (programs.main, programs.startup)]
            return Programs(*map(paddle.static.Program.parse_from_string, texts))
        return Programs(programs.main.clone(), programs.startup)

    roles = {JobRole("trainer", rank): programs for rank, programs in enumerate(together(4, work))}
    return "\n".join(f"{each.rule}: {each.message}" for each in check(roles, job).findings)


def in_all_groups(x: Any, rank: int, groups: Any) -> None:
    for group in groups:
        dist.all_reduce(x, group=group)
    dist.barrier()


@pytest.mark.parametrize("from_file", [False, True], ids=["built", "read"])
def test_the_static_check_knows_groups(from_file: bool) -> None:
    assert checked(4, in_all_groups, from_file) == ""
    found = checked(4, lambda x, rank, groups: dist.all_reduce(x, rank, groups[0]), from_file)
    assert found.startswith("collective-order: c_allreduce_max") and "c_allreduce_sum" in found
    assert "on ring 10" in found and len(found.splitlines()) == 1
    found = checked(2, in_all_groups, from_file)
    assert "nranks: ring 11 has the ranks [2, 3], but the job has 2 trainers" in found
    found = checked(
        4,
        lambda x, rank, groups: x.block.append_op(
            type="c_allreduce_sum", inputs={"X": [x]}, outputs={"Out": [x]}, attrs={"ring_id": 7}
        ),
        from_file,
    )
    assert "ring: ring 7 is never made" in found


# ---------------------------------------------------------------------- what goes wrong
MIXED: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any], str]] = [
    (
        "reduce and gather",
        lambda x: dist.all_reduce(x),
        lambda x: dist.all_gather([], x),
        "rank0 wants all-reduce sum of float32.*rank1 wants all-gather of float32",
    ),
    (
        "sum and max",
        lambda x: dist.all_reduce(x),
        lambda x: dist.all_reduce(x, dist.ReduceOp.MAX),
        "rank0 wants all-reduce sum .*rank1 wants all-reduce max",
    ),
    (
        "two roots",
        lambda x: dist.broadcast(x, 0),
        lambda x: dist.broadcast(x, 1),
        "rank0 wants broadcast from 0 .*rank1 wants broadcast from 1",
    ),
    (
        "shapes",
        lambda x: dist.all_reduce(x),
        lambda x: dist.all_reduce(x[:1]),
        r"rank0 wants all-reduce sum of float32\[2, 3\].*rank1 wants all-reduce sum of float32\[1, 3\]",
    ),
    (
        "exchange and gather",
        lambda x: dist.alltoall([x, x], []),
        lambda x: dist.gather(x, [], 1),
        "rank0 wants sizes of an all-to-all .*rank1 wants gather to 1",
    ),
    (
        "receive and reduce",
        lambda x: dist.recv(x, 1),
        lambda x: dist.all_reduce(x),
        "rank0 waits for rank 1 of ring 0 to send(.|\n)*rank1 waits for .*all-reduce sum",
    ),
]


@pytest.mark.parametrize("one, other, says", [row[1:] for row in MIXED], ids=[row[0] for row in MIXED])
def test_members_that_call_different_things(one: Any, other: Any, says: str) -> None:
    def work(rank: int) -> None:
        dist.init_parallel_env()
        (other if rank else one)(np.zeros((2, 3), "float32"))

    with pytest.raises(CommunicatorError, match=says):
        together(2, work)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (
            lambda: dist.all_reduce([1.0]),
            TypeError,
            "must be Variable or an array, but received <class 'list'>",
        ),
        (lambda: dist.all_reduce(np.zeros(1), 7), ValueError, "op is 7, but should be a ReduceOp"),
        (lambda: dist.all_reduce(np.zeros(1, "int64"), 4), ValueError, "the mean of int64 is not an integer"),
        (lambda: dist.reduce(np.zeros(1), 2), ValueError, "dst is 2, but the ranks are 0 to 0"),
        (
            lambda: dist.alltoall([], []),
            ValueError,
            "needs a tensor for each of the 1 ranks, but was given 0",
        ),
        (lambda: dist.scatter(np.zeros(1), [], 0), ValueError, "needs one tensor for each rank: tensor_list"),
        (lambda: dist.gather(np.zeros(1), None, 0), ValueError, "needs a list for the results"),
        (lambda: dist.all_gather([np.zeros(2)], np.zeros(1)), ValueError, "the array for it has the shape"),
        (lambda: dist.batch_isend_irecv([]), ValueError, "needs a list of P2POp"),
        (lambda: dist.P2POp(dist.send, np.zeros(1), 0), RuntimeError, "Invalid ``op`` function"),
    ],
    ids=range(10),
)
def test_arguments(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    dist.init_parallel_env()
    with pytest.raises(error, match=says):
        call()


def test_a_call_before_the_group_is_made() -> None:
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="Group 0 is not initialized .*init_parallel_env"):
        dist.all_reduce(np.zeros(1))


# ---------------------------------------------------------------------- objects
OBJECT = {
    "name": "x",
    "list": [1, 2.5, None, True],
    "pair": (1, (2, b"bytes")),
    3: np.arange(6, dtype="int16").reshape(2, 3),
    "nothing": np.zeros((0, 2), "float32"),
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def test_objects() -> None:
    def work(rank: int) -> None:
        dist.init_parallel_env()
        pair = dist.new_group([0, 2])
        for _ in range(2):
            found: list[Any] = []
            dist.all_gather_object(found, {**OBJECT, "rank": rank})
            assert all(same(each, {**OBJECT, "rank": number}) for number, each in enumerate(found))
            given: list[Any] = [OBJECT, rank] if rank == 2 else [None, None]
            dist.broadcast_object_list(given, 2, group=pair)
            assert rank == 1 or (same(given[0], OBJECT) and given[1] == 2)
            out: list[Any] = []
            dist.scatter_object_list(out, [OBJECT, [rank], "x"] if rank == 1 else None, 1)
            assert same(out[0], (OBJECT, [1], "x")[rank])

    together(3, work)


@pytest.mark.parametrize(
    "value, says",
    [
        ({"a": [1, {2}]}, r"the object\['a'\]\[1\] is of type set, which cannot be sent"),
        (object(), "the object is of type object, .*nothing is"),
        ({(1, 2): 3}, "a key of type tuple"),
        (np.array([object()]), "of type ndarray"),
    ],
    ids=range(4),
)
def test_objects_that_are_not_sent(value: Any, says: str) -> None:
    dist.init_parallel_env()
    with pytest.raises(ArgumentError, match=says):
        dist.all_gather_object([], value)


# ---------------------------------------------------------------------- layers that ranks share
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: paddle.optimizer.SGD(0.5),
        lambda: paddle.optimizer.SGD(0.5, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05)),
        lambda: paddle.optimizer.AdamW(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05)),
        lambda: paddle.optimizer.Momentum(0.5, grad_clip=paddle.nn.ClipGradByValue(0.01)),
        lambda: fluid.optimizer.SGD(0.5, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.05)),
    ],
    ids=["plain", "global norm", "adamw", "by value", "fluid"],
)
def test_shared_layers_train_as_one_process(optimizer: Callable[[], Any]) -> None:
    """A table by its vocabulary, a product by columns and one by rows, against one rank with the same
    weights.
    """
    random = np.random.RandomState(0)
    whole = {name: random.uniform(-1, 1, shape).astype("float32") for name, shape in WHOLE.items()}
    ids = random.randint(0, 8, (5, 3)).astype("int64")

    def work(rank: int, size: int) -> Any:
        dist.init_parallel_env()
        main, startup, scope = paddle.static.Program(), paddle.static.Program(), fluid.Scope()
        with building(main, startup):
            loss = shared_model(size)
            optimizer().minimize(loss)
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup, scope=scope)
        for name, axis in (("table", 0), ("columns", 1), ("rows", 0)):
            part = np.ascontiguousarray(np.split(whole[name], size, axis)[rank])
            scope.find_var(name).get_tensor().set(part, paddle.CPUPlace())
        losses = [
            exe.run(main, feed={"ids": ids}, fetch_list=[loss], scope=scope)[0].item() for _ in range(4)
        ]
        return losses, {name: np.array(scope.find_var(name).get_tensor()) for name in whole}

    ((wanted, weights),) = together(1, lambda rank: work(rank, 1))
    found = together(2, lambda rank: work(rank, 2))
    assert wanted[0] > wanted[-1]
    for losses, _ in found:
        assert np.allclose(losses, wanted, rtol=1e-5)
    for name, axis in (("table", 0), ("columns", 1), ("rows", 0)):
        joined = np.concatenate([parts[name] for _, parts in found], axis)
        assert np.allclose(joined, weights[name], rtol=1e-5, atol=1e-6), name


WHOLE = {"table": (8, 6), "columns": (6, 8), "rows": (8, 4)}


def shared_model(size: int) -> Any:
    ids = paddle.static.data("ids", [5, 3], "int64")
    seen = dist.split(ids, (8, 6), "embedding", num_partitions=size, weight_attr=paddle.ParamAttr("table"))
    hidden = dist.split(
        seen,
        (6, 8),
        "linear",
        axis=1,
        num_partitions=size,
        gather_out=False,
        weight_attr=paddle.ParamAttr("columns"),
    )
    out = dist.split(
        paddle.tanh(hidden),
        (8, 4),
        "linear",
        axis=0,
        num_partitions=size,
        weight_attr=paddle.ParamAttr("rows"),
    )
    return paddle.reshape(paddle.mean(out * out), [1])


@pytest.mark.parametrize(
    "optimizer, what",
    [
        (lambda: paddle.optimizer.SGD(0.5, grad_clip=paddle.nn.ClipGradByNorm(0.05)), "GradientClipByNorm"),
        (lambda: paddle.optimizer.Lamb(0.1), "op 'lamb'"),
        (lambda: fluid.optimizer.LarsMomentum(0.1, 0.9), "op 'lars_momentum'"),
        (lambda: fluid.optimizer.Dpsgd(0.1, 1.0, 4, 1.0), "op 'dpsgd'"),
    ],
)
def test_what_reads_whole_parameters_takes_no_parts(optimizer: Callable[[], Any], what: str) -> None:
    def work(rank: int) -> None:
        dist.init_parallel_env()
        with building(paddle.static.Program(), paddle.static.Program()):
            loss = shared_model(2)
            with pytest.raises(
                UnsupportedError, match=rf"{what} needs complete parameters, but '\w+' \[.*\] is"
            ):
                optimizer().minimize(loss)

    together(2, work)


def test_a_part_is_not_saved_as_if_it_were_whole(tmp_path: Path) -> None:
    def work(rank: int) -> None:
        dist.init_parallel_env()
        main, startup = paddle.static.Program(), paddle.static.Program()
        with building(main, startup):
            loss = shared_model(2)
            ids = main.global_block().var("ids")
        exe, scope = paddle.static.Executor(paddle.CPUPlace()), fluid.Scope()
        exe.run(startup, scope=scope)
        to = str(tmp_path / f"rank{rank}")
        saves: list[Callable[[], Any]] = [
            lambda: paddle.static.save(main, to),
            lambda: fluid.io.save_persistables(exe, to, main),
            lambda: fluid.io.save_params(exe, to, main),
            lambda: fluid.io.save_inference_model(to, ["ids"], [loss], exe, main),
            lambda: paddle.static.save_inference_model(to, [ids], [loss], exe, program=main),
        ]
        for save in saves:
            with pytest.raises(
                UnsupportedError, match="a file needs complete .*save_checkpoint saves the parts"
            ):
                save()

    together(2, work)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_classes_that_ranks_share() -> None:
    """The loss and the gradient are those of all classes in one rank."""
    random = np.random.RandomState(1)
    scores = random.uniform(-3, 3, (4, 6)).astype("float32")
    label = np.array([[0], [5], [-100], [3]], "int64")

    def work(rank: int, size: int) -> Any:
        dist.init_parallel_env()
        main = paddle.static.Program()
        with building(main, paddle.static.Program()):
            x = paddle.static.data("x", [4, 6 // size])
            x.stop_gradient = False
            block = main.global_block()
            softmax, loss = (block.create_var(name=name, dtype="float32") for name in ("softmax", "loss"))
            block.append_op(
                type="c_softmax_with_cross_entropy",
                inputs={"Logits": [x], "Label": [paddle.static.data("label", [4, 1], "int64")]},
                outputs={"Softmax": [softmax], "Loss": [loss]},
                attrs={"ring_id": 0, "rank": rank, "nranks": size},
            )
            (gradient,) = paddle.static.gradients([paddle.sum(loss)], [x])
        feed = {"x": np.ascontiguousarray(np.split(scores, size, 1)[rank]), "label": label}
        exe = paddle.static.Executor(paddle.CPUPlace())
        return exe.run(main, feed=feed, fetch_list=[loss, softmax, gradient])

    ((loss, softmax, gradient),) = together(1, lambda rank: work(rank, 1))
    assert np.allclose(
        loss[:, 0],
        [
            np.log(np.exp(row).sum()) - row[k] if k >= 0 else 0
            for row, (k,) in zip(scores, label, strict=True)
        ],
        rtol=1e-5,
    )
    found = together(3, lambda rank: work(rank, 3))
    assert all(np.allclose(each[0], loss, rtol=1e-5) for each in found)
    assert np.allclose(np.concatenate([each[1] for each in found], 1), softmax, rtol=1e-5)
    assert np.allclose(np.concatenate([each[2] for each in found], 1), gradient, rtol=1e-5, atol=1e-6)
