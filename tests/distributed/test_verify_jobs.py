"""`fluidlite.distributed.verify`: small programs in every mode equal their references, and what is wrong
is found.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.distributed import verify
from fluidlite.distributed.cluster import verify_job
from fluidlite.distributed.feeds import random_feeds
from fluidlite.distributed.references import Initial
from fluidlite.distributed.traffic import Feeds, compare_with_estimate
from fluidlite.distributed.trial import Trial
from fluidlite.errors import CommunicatorError, FluidError, TranspilerError
from fluidlite.executor.comm.local.network import JobEvent, LocalNetwork, TurnScheduler
from fluidlite.transpiler import Job, make_job

Made = tuple[fluid.Program, fluid.Program, list[dict[str, Any]]]


def made(
    net: Callable[[], Any],
    feeds: Callable[[np.random.RandomState], dict[str, Any]],
    steps: int = 4,
    optimizer: Callable[[], Any] = lambda: fluid.optimizer.Momentum(0.01, 0.9),
) -> Made:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = net()
        optimizer().minimize(loss)
    random = np.random.RandomState(1)
    return main, startup, [feeds(random) for _ in range(steps)]


def line() -> Made:
    def net() -> Any:
        x, y = fluid.data("x", [None, 10]), fluid.data("y", [None, 1])
        return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))

    return made(
        net,
        lambda random: {
            "x": random.randn(8, 10).astype("float32"),
            "y": random.randn(8, 1).astype("float32"),
        },
    )


def convolution() -> Made:
    def net() -> Any:
        image, label = fluid.data("image", [None, 1, 12, 12]), fluid.data("label", [None, 1], "int64")
        seen = fluid.nets.simple_img_conv_pool(image, 4, 3, 2, 2, act="relu")
        return fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(seen, 10, act="softmax"), label))

    return made(
        net,
        lambda random: {
            "image": random.randn(8, 1, 12, 12).astype("float32"),
            "label": random.randint(0, 10, (8, 1)),
        },
    )


def words() -> Made:
    def net() -> Any:
        context = [fluid.data(f"word{index}", [None, 1], "int64") for index in range(3)]
        target = fluid.data("target", [None, 1], "int64")
        vectors = [
            fluid.layers.embedding(word, [300, 16], is_sparse=True, param_attr="vectors") for word in context
        ]
        hidden = fluid.layers.fc(fluid.layers.concat(vectors, 1), 32, act="sigmoid")
        return fluid.layers.mean(
            fluid.layers.cross_entropy(fluid.layers.fc(hidden, 300, act="softmax"), target)
        )

    return made(
        net,
        lambda random: {
            name: random.randint(0, 300, (8, 1)) for name in ("word0", "word1", "word2", "target")
        },
    )


NETS = {"line": line, "convolution": convolution, "words": words}
IN_STEP = ("pserver", "grad_allreduce", "nccl2", "multi_thread", "single_process_multi_thread")


@pytest.mark.parametrize("mode", IN_STEP)
@pytest.mark.parametrize("net", NETS)
def test_equal_to_one_process(net: str, mode: str) -> None:
    main, startup, feeds = NETS[net]()
    proof = verify(main, startup, feeds, mode, trainers=4)
    assert proof.ok, str(proof)
    assert "4 steps: equal to one process on the whole batches" in str(proof) and str(proof).endswith("\nok")
    assert len(proof.differences) == len(main.all_parameters())
    assert sum(proof.traffic.values()) > 0


@pytest.mark.parametrize("net", NETS)
def test_equal_to_processes_that_average(net: str) -> None:
    main, startup, feeds = NETS[net]()
    proof = verify(main, startup, feeds, "local_sgd", trainers=4)
    assert proof.ok, str(proof)
    assert "equal to processes that average their parameters after each step" in str(proof)


ASYNCHRONOUS: dict[str, dict[str, Any]] = {
    "async": {"sync_mode": False},
    "dc_asgd": {"sync_mode": False, "enable_dc_asgd": True},
    "communicator": {"sync_mode": False, "runtime_split_send_recv": True},
    "half_async": {"sync_mode": False, "runtime_split_send_recv": True, "half_async": True},
    "geo_2": {"geo_sgd_need_push_nums": 2},
    "geo_3": {"geo_sgd_need_push_nums": 3},
}


@pytest.fixture
def communicator(flags: Callable[..., None]) -> None:
    """Communicators that merge, and fetch, within few steps."""
    flags(communicator_max_merge_var_num=2, communicator_min_send_grad_num_before_recv=4)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    "net, how", [(net, how) for net in NETS for how in ASYNCHRONOUS if (net, how) != ("words", "dc_asgd")]
)
def test_equal_to_a_simulation_of_the_same_order(
    net: str, how: str, seed: int | None, communicator: None
) -> None:
    main, startup, feeds = NETS[net]()
    config = fluid.DistributeTranspilerConfig.make(**ASYNCHRONOUS[how])
    proof = verify(
        main,
        startup,
        feeds,
        "geo_sgd" if how.startswith("geo") else "pserver",
        trainers=4,
        config=config,
        seed=seed,
    )
    assert proof.ok, str(proof)
    assert "equal to a simulation of its servers" in str(proof)


def test_the_order_of_asynchronous_jobs_comes_from_the_seed() -> None:
    main, startup, feeds = words()

    def events(seed: int | None) -> list[JobEvent]:
        job = make_job(main, startup, "pserver", 3, 2, sync_mode=False)
        network = LocalNetwork(TurnScheduler(seed))
        Trial(job, Initial(job), [feeds[:2]] * 3, network).run()
        return network.events

    assert events(None) == events(None) != events(1) == events(1) != events(2)


def test_asynchronous_schedules_and_optimizers() -> None:
    def net() -> Any:
        x, y = fluid.data("x", [None, 200]), fluid.data("y", [None, 1])
        hidden = fluid.layers.fc(x, 100, act="tanh")
        return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))

    def feeds(random: np.random.RandomState) -> dict[str, Any]:
        return {"x": random.randn(8, 200).astype("float32"), "y": random.randn(8, 1).astype("float32")}

    for optimizer in (
        lambda: fluid.optimizer.Adam(0.01),
        lambda: fluid.optimizer.SGD(fluid.layers.exponential_decay(0.01, 2, 0.5)),
        lambda: fluid.optimizer.Momentum(0.01, 0.9, regularization=fluid.regularizer.L2Decay(0.1)),
    ):
        main, startup, batches = made(net, feeds, optimizer=optimizer)
        proof = verify(main, startup, batches, "pserver", trainers=2, sync_mode=False, seed=7)
        assert proof.equal, str(proof)


# ---------------------------------------------------------------------- what is wrong is found
def test_a_wrong_job_is_not_proven() -> None:
    main, startup, feeds = line()
    proof = verify(main, startup, feeds, trainers=4)
    wrong = dataclasses.replace(proof, differences={**proof.differences, "fc_0.w_0": 1e-3})
    assert (
        not wrong.ok
        and "NOT EQUAL" in str(wrong)
        and "TOO LARGE" in str(wrong)
        and str(wrong).endswith("FAILED")
    )


@pytest.mark.parametrize("sync_mode", [True, False])
@pytest.mark.parametrize("scale", ["scale", "lr"])
def test_a_server_that_errs_is_caught(sync_mode: bool, scale: str) -> None:
    main, startup, feeds = line()
    job = make_job(main, startup, "pserver", 2, 2, sync_mode=sync_mode)
    for role in job.roles[2:]:
        for op in (op for block in job.programs(role).main.blocks for op in block.ops):
            if op.type == "momentum" and scale == "lr":
                op._set_attr("mu", 0.5)
            if op.type == "scale" and scale == "scale":
                op._set_attr("scale", 0.3)
    assert verify_job(job, feeds).equal == (
        scale == "scale" and not sync_mode
    )  # asynchronous servers have no scale


@pytest.mark.parametrize("pools", ["sum", "last"])
@pytest.mark.parametrize(("mode", "in_step"), [("pserver", True), ("pserver", False), ("geo_sgd", True)])
def test_lookups_of_other_lengths_in_one_table(mode: str, in_step: bool, pools: str) -> None:
    """A query, what was chosen and what was not look up their words in one sparse table: one request brings
    the rows of all three, each with its own level of detail.
    """
    table = fluid.ParamAttr("table")

    def tower(name: str) -> Any:
        words = fluid.layers.data(name, [1], dtype="int64", lod_level=1)
        rows = fluid.layers.embedding(words, [50, 8], is_sparse=True, param_attr=table)
        return fluid.layers.fc(fluid.layers.sequence_pool(rows, pools), 4, param_attr="w", bias_attr=False)

    def net() -> Any:
        query, positive, negative = map(tower, ("query", "positive", "negative"))
        good, bad = fluid.layers.cos_sim(query, positive), fluid.layers.cos_sim(query, negative)
        return fluid.layers.mean(fluid.layers.relu(bad - good + 0.5))

    def sequences(random: np.random.RandomState, longest: int) -> Any:
        lengths = random.randint(1, longest, 4).tolist()
        words = random.randint(0, 50, (sum(lengths), 1))
        return fluid.create_lod_tensor(words, [lengths], fluid.CPUPlace())

    main, startup, feeds = made(
        net,
        lambda random: {
            "query": sequences(random, 3),
            "positive": sequences(random, 6),
            "negative": sequences(random, 9),
        },
        optimizer=lambda: fluid.optimizer.SGD(0.1),
    )
    assert str(verify(main, startup, feeds, mode, sync_mode=in_step)).endswith("\nok")


def test_more_on_a_link_than_was_planned() -> None:
    main, startup, feeds = line()
    proof = verify(main, startup, feeds)
    job = make_job(main, startup)
    counted = {
        (link.source, link.target): round(proof.traffic[link.source, link.target]) for link in proof.links
    }
    steps = {(link.source, link.target): round(link.a_step * len(feeds)) for link in proof.links}
    assert all(link.ok for link in compare_with_estimate(job, counted, steps, len(feeds), Feeds(4)))
    more = {**steps, ("trainer0", "127.0.0.1:6174"): steps["trainer0", "127.0.0.1:6174"] + 100}
    assert [
        link.source for link in compare_with_estimate(job, counted, more, len(feeds), Feeds(4)) if not link.ok
    ] == ["trainer0"]
    none = {link: size for link, size in steps.items() if link != ("trainer0", "127.0.0.1:6175")}
    assert [
        link.target for link in compare_with_estimate(job, counted, none, len(feeds), Feeds(4)) if not link.ok
    ] == ["127.0.0.1:6175"]


def test_what_cannot_be_compared() -> None:
    main, startup, feeds = line()
    with pytest.raises(TranspilerError, match="the 8 rows of 'x' cannot be divided evenly among 3 trainers"):
        verify(main, startup, feeds, trainers=3)
    with pytest.raises(TranspilerError, match="at least one batch"):
        verify(main, startup, [])


# ---------------------------------------------------------------------- deadlocks
def deadlock(job: Job, feeds: list[dict[str, Any]]) -> str:
    """The error of a job that cannot go on, which comes long before FLAGS_rpc_deadline."""
    start = time.monotonic()
    with pytest.raises(CommunicatorError) as found:
        verify_job(job, feeds)
    assert time.monotonic() - start < fluid.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"] / 3000
    return str(found.value)


def remove(job: Job, role: str, kind: str) -> None:
    block = job.programs(job.role(role)).main.global_block()
    block._remove_op(next(op.idx for op in block.ops if op.type == kind))


def test_a_server_that_nobody_is_is_named() -> None:
    main, startup, feeds = line()
    job = make_job(main, startup)
    for op in job.trainer(1).main.global_block().ops:
        if op.type == "send_barrier":
            op._set_attr("endpoints", ["127.0.0.1:9999"])
    said = deadlock(job, feeds)
    for piece in (
        "deadlock",
        "trainer0 waits for an answer of the server at 127.0.0.1:617",
        "trainer1 waits for an answer of the server at 127.0.0.1:9999 in op 'send_barrier', built at ",
        "test_verify_jobs.py:",
        "trainer0 said BARRIER, trainer1 said SEND",
        "pserver0 waits for messages of trainers at 127.0.0.1:6174",
        "in op 'listen_and_serv', which a transpiler added",
    ):
        assert piece in said, said


def test_a_missing_send_is_named() -> None:
    main, startup, feeds = line()
    job = make_job(main, startup)
    for trainer in ("trainer0", "trainer1"):
        remove(job, trainer, "send")
    with pytest.raises(FluidError, match="no trainer has sent 'fc_0"):
        verify_job(job, feeds)


def test_swapped_endpoints_are_named() -> None:
    main, startup, feeds = line()
    job = make_job(main, startup)
    for op in job.trainer(0).main.global_block().ops:
        if op.type == "recv":
            op._set_attr(
                "epmap",
                list(
                    reversed([end for end in job.endpoints if end not in op.attrs["epmap"]] or job.endpoints)
                ),
            )
    with pytest.raises(FluidError, match="asks for 'fc_0.*which this server does not hold"):
        verify_job(job, feeds)


def test_a_missing_all_reduce_is_named() -> None:
    main, startup, feeds = convolution()
    job = make_job(main, startup, "grad_allreduce", 3)
    for op in [op for op in job.trainer(1).main.global_block().ops if op.type == "c_allreduce_sum"]:
        op.block._remove_op(op.idx)
    said = deadlock(job, [{name: value[:6] for name, value in feed.items()} for feed in feeds])
    assert (
        "deadlock" in said
        and "trainer0 waits for the other ranks of ring 0" in said
        and "c_allreduce_sum" in said
    )


def test_fewer_batches_are_no_deadlock() -> None:
    main, startup, feeds = words()
    for sync_mode in (True, False):
        job = make_job(main, startup, "pserver", 2, 2, sync_mode=sync_mode)
        found = Trial(job, Initial(job), [feeds[:4], feeds[:2]], LocalNetwork(TurnScheduler())).run()
        assert all(np.isfinite(value).all() for value in found.trainers[0].values())


def test_sequences_are_shared_and_planned() -> None:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        words, label = (
            fluid.layers.data("words", [1], dtype="int64", lod_level=1),
            fluid.layers.data("label", [1], dtype="int64"),
        )
        seen = fluid.layers.sequence_pool(fluid.layers.embedding(words, [50, 8], is_sparse=True), "average")
        loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(seen, 3, act="softmax"), label))
        fluid.optimizer.SGD(0.1).minimize(loss)
    for mode in ("pserver", "grad_allreduce"):
        proof = verify(main, startup, random_feeds(main, 8, 3, sequence=5), mode, trainers=4)
        assert proof.ok, str(proof)
