"""The cases of the transpilers: every mode and option on programs of `transpiled_sources.py`. Runs on Python
3.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

import transpiled_sources as sources
from transpiled_sources import (
    adam,
    clipped,
    decayed,
    optimizer,
    schedule,
    scheduled,
    sgd,
    trained,
    warm,
    words,
)

TWO = "127.0.0.1:6174,127.0.0.1:6175"
FOUR = "10.0.0.1:6170,10.0.0.1:6171,10.0.0.2:6170,10.0.0.2:6171"
FIVE = ",".join(f"10.0.0.{i}:6170" for i in range(1, 6))


@dataclass(frozen=True)
class Case:
    """One program and one way to transpile it."""

    build: sources.Build
    mode: str = "pserver"  # a key of transpiled_roles.MODES
    trainers: int = 2
    endpoints: str = TWO  # of the servers, or of the trainers where there are none
    sync: bool = True  # the argument sync_mode
    ids: Tuple[int, ...] = (0,)  # the trainers that are recorded  # noqa: UP006
    config: Dict[str, Any] = field(default_factory=dict)  # noqa: UP006
    seed: int = 0  # random_seed of both programs
    pairs: bool = False  # servers by get_pserver_programs
    rings: int = 0  # nrings of the collective classes; 0: their default

    @property
    def servers(self) -> List[str]:  # noqa: UP006
        return self.endpoints.split(",")


Cases = Dict[str, Case]

OPTIMIZERS = {
    "sgd": sgd,
    "adam": adam,
    "momentum": optimizer("Momentum", 0.1, 0.9),
    "nesterov": optimizer("Momentum", 0.1, 0.9, use_nesterov=True),
    "lars": optimizer("LarsMomentum", 0.1, 0.9),
    "adam_lazy": optimizer("Adam", 0.01, lazy_mode=True),
    "adamax": optimizer("Adamax", 0.01),
    "adagrad": optimizer("Adagrad", 0.1, initial_accumulator_value=0.1),
    "decayed_adagrad": optimizer("DecayedAdagrad", 0.1),
    "adadelta": optimizer("Adadelta", 0.1),
    "rmsprop": optimizer("RMSProp", 0.1),
    "rmsprop_centered": optimizer("RMSProp", 0.1, momentum=0.5, centered=True),
    "ftrl": optimizer("Ftrl", 0.1, l1=0.1, l2=0.1),
    "lamb": optimizer("Lamb", 0.01),
    "dpsgd": optimizer("Dpsgd", 0.1, clip=1.0, batch_size=16.0, sigma=0.5),
}
SCHEDULES = {
    "exponential": schedule("exponential_decay", 0.1, 100, 0.9),
    "exponential_stairs": schedule("exponential_decay", 0.1, 100, 0.9, staircase=True),
    "natural_exp": schedule("natural_exp_decay", 0.1, 100, 0.9),
    "inverse_time": schedule("inverse_time_decay", 0.1, 100, 0.9),
    "polynomial": schedule("polynomial_decay", 0.1, 100),
    "polynomial_cycle": schedule("polynomial_decay", 0.1, 100, power=2.0, cycle=True),
    "piecewise": schedule("piecewise_decay", [10, 20], [0.1, 0.05, 0.01]),
    "noam": schedule("noam_decay", 64, 100),
    "cosine": schedule("cosine_decay", 0.1, 100, 10),
    "warmup": warm(0.1),
    "warmup_noam": warm(schedule("noam_decay", 64, 100)),
    "warmup_piecewise": warm(schedule("piecewise_decay", [10, 20], [0.1, 0.05, 0.01])),
}
PENALTIES = {
    "l1": trained(decayed("L1Decay")),
    "l2": trained(decayed("L2Decay")),
    "l2_momentum": trained(decayed("L2Decay", "Momentum", 0.9)),
    "l2_each": trained(sgd, sources.regularised_fc),
    "clip_value": trained(clipped("GradientClipByValue", 1.0)),
    "clip_norm": trained(clipped("GradientClipByNorm", 1.0)),
    "clip_global_norm": trained(clipped("GradientClipByGlobalNorm", 1.0)),
    "clip_value_old": sources.clipped_before("GradientClipByValue", 1.0, -0.5),
    "clip_norm_old": sources.clipped_before("GradientClipByNorm", 1.0),
    "clip_global_norm_old": sources.clipped_before("GradientClipByGlobalNorm", 1.0),
    "clip_norm_l2": trained(
        clipped("GradientClipByNorm", 1.0, regularization=lambda fluid: fluid.regularizer.L2Decay(1e-4))
    ),
    "error_clip": trained(sgd, sources.error_clipped_fc),
}
PROGRAMS = {
    "shared": trained(sgd, sources.shared_fc),
    "frozen": trained(adam, sources.frozen_fc),
    "batch_norm": trained(optimizer("Momentum", 0.1, 0.9), sources.normalised),
    "scaled": trained(sgd, sources.scaled_fc),
    "scaled_adam": trained(adam, sources.scaled_fc),
    "scoped": trained(sgd, sources.scoped_fc),
    "convolved": trained(adam, sources.convolved),
    "repeated": trained(sgd, sources.repeated),
    "two_losses": sources.two_losses,
    "two_optimizers": sources.two_optimizers,
    "averaged": sources.averaged,
    "reader": sources.fed_by_reader,
    "uneven": trained(sgd, sources.uneven_fc),
}
TABLES = {
    "dense_table": trained(sgd, words(sparse=False)),
    "sparse": trained(sgd, words()),
    "sparse_adam": trained(optimizer("Adam", 0.01, lazy_mode=True), words()),
    "sparse_adagrad": trained(optimizer("Adagrad", 0.1), words()),
    "sparse_momentum": trained(optimizer("Momentum", 0.1, 0.9), words()),
    "sparse_padding": trained(sgd, words(padding_idx=3)),
    "sparse_v2": trained(sgd, sources.words_of_v2),
    "sparse_decay": trained(scheduled(SCHEDULES["exponential"]), words()),
    "sparse_l2": trained(decayed("L2Decay"), words()),
    "sparse_sliced": trained(sgd, words(size=3000)),
    "sparse_adam_sliced": trained(adam, words(size=3000)),
    "two_tables": trained(sgd, sources.two_tables()),
    "table_twice": trained(sgd, sources.two_tables(names=("one", "one"))),
    "nce": trained(sgd, sources.sampled("nce")),
    "hsigmoid": trained(sgd, sources.sampled("hsigmoid")),
    "distributed": trained(sgd, words(distributed=True)),
    "distributed_adam": trained(adam, words(distributed=True)),
    "distributed_dense": trained(sgd, words(sparse=False, distributed=True)),
    "distributed_decay": trained(scheduled(SCHEDULES["exponential"]), words(distributed=True)),
    "distributed_twice": trained(sgd, sources.two_tables(True, ("one", "one"))),
    "two_distributed": trained(sgd, sources.two_tables(True)),
}
# asynchronous trainers whose slices are cut when they are sent
AT_RUN_TIME: Dict[str, Any] = {"sync_mode": False, "runtime_split_send_recv": True}  # noqa: UP006
HALF: Dict[str, Any] = {"sync_mode": False, "half_async": True}  # noqa: UP006
GEO: Dict[str, Any] = {**AT_RUN_TIME, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 5}  # noqa: UP006


def grid(prefix: str, builds: Dict[str, Any], **options: Any) -> Cases:  # noqa: UP006
    return {prefix + name: Case(build, **options) for name, build in builds.items()}


def families() -> Cases:
    """Every optimizer, schedule, penalty and table, synchronous and asynchronous."""
    optimized = {name: trained(make) for name, make in OPTIMIZERS.items()}
    decays = {name: trained(scheduled(make)) for name, make in SCHEDULES.items()}
    found: Cases = {}
    for prefix, builds in (
        ("", optimized),
        ("decay_", decays),
        ("", PENALTIES),
        ("", PROGRAMS),
        ("", TABLES),
    ):
        found.update(grid("sync_" + prefix, builds))
        found.update(grid("async_" + prefix, builds, sync=False))
    clips = {name: build for name, build in PENALTIES.items() if "clip" in name}
    found.update(grid("sync_whole_", clips, config={"slice_var_up": False}, seed=1))
    found.update(grid("async_whole_", clips, config={"slice_var_up": False}, seed=1, sync=False))
    return found


def placements() -> Cases:
    """Slices, servers, trainers."""
    wide = trained(sgd, sources.wide_fc)
    return {
        "place_five_servers": Case(wide, endpoints=FIVE),
        "place_large_blocks": Case(wide, config={"min_block_size": 25000}),
        "place_small_blocks": Case(wide, config={"min_block_size": 1}),
        "place_whole": Case(trained(sgd), config={"slice_var_up": False}, seed=7),
        "place_whole_adam": Case(trained(adam), config={"slice_var_up": False}, seed=3, endpoints=FIVE),
        "place_whole_unseeded": Case(trained(sgd), config={"slice_var_up": False}),
        "place_round_robin": Case(trained(sgd), config={"split_method": "RoundRobin"}),
        "place_hash": Case(trained(sgd), config={"split_method": "HashName"}),
        "place_idle_server": Case(trained(sgd, sources.one_fc), endpoints=FIVE),
        "place_idle_server_async": Case(trained(sgd, sources.one_fc), endpoints=FIVE, sync=False),
        "place_idle_server_decay": Case(
            trained(scheduled(SCHEDULES["exponential"]), sources.one_fc), endpoints=FIVE
        ),
        "place_one_server": Case(trained(sgd), endpoints="127.0.0.1:6174"),
        "place_one_trainer": Case(trained(sgd), trainers=1),
        "place_one_trainer_async": Case(trained(sgd), trainers=1, sync=False),
        "place_one_trainer_adam": Case(trained(adam), trainers=1),
        "place_three_trainers": Case(trained(adam), trainers=3, ids=(0, 1, 2)),
        "place_second_trainer_async": Case(trained(adam), sync=False, ids=(0, 1)),
        "place_by_pairs": Case(trained(adam), pairs=True),
        "place_by_pairs_distributed": Case(trained(sgd, words(distributed=True)), pairs=True),
    }


def keeping_step() -> Cases:
    """How trainers and servers wait for each other."""
    found: Cases = {
        "step_config_async": Case(trained(sgd), config={"sync_mode": False}),
        "step_config_async_argument_async": Case(trained(sgd), config={"sync_mode": False}, sync=False),
        "step_half_async": Case(trained(sgd), config=HALF, sync=False),
        "step_half_async_sync": Case(trained(sgd), config=HALF),
        "step_half_async_table": Case(trained(sgd, words()), config=HALF, sync=False),
        "step_half_async_at_run_time": Case(
            trained(adam), config={**AT_RUN_TIME, "half_async": True}, sync=False
        ),
        "step_never_async": Case(trained(sgd), config={"completely_not_async": True}, sync=False),
        "step_never_async_sync": Case(trained(sgd), config={"completely_not_async": True}),
        "step_at_run_time": Case(trained(sgd), config=AT_RUN_TIME, sync=False, ids=(0, 1)),
        "step_at_run_time_adam": Case(trained(adam), config=AT_RUN_TIME, sync=False),
        "step_at_run_time_sync": Case(trained(sgd), config=AT_RUN_TIME),
        "step_at_run_time_table": Case(trained(sgd, words(size=3000)), config=AT_RUN_TIME, sync=False),
        "step_at_run_time_decay": Case(
            trained(scheduled(SCHEDULES["exponential"])), config=AT_RUN_TIME, sync=False
        ),
        "step_dc_asgd": Case(trained(sgd), config={"enable_dc_asgd": True}, sync=False),
        "step_dc_asgd_sync": Case(trained(sgd), config={"enable_dc_asgd": True}),
        "step_dc_asgd_momentum": Case(
            trained(optimizer("Momentum", 0.1, 0.9)), config={"enable_dc_asgd": True}, sync=False
        ),
        "step_dc_asgd_decay": Case(PENALTIES["l2_momentum"], config={"enable_dc_asgd": True}, sync=False),
        "step_dc_asgd_table": Case(trained(sgd, words()), config={"enable_dc_asgd": True}, sync=False),
    }
    for name in ("noam", "piecewise"):
        found["step_half_async_decay_" + name] = Case(
            trained(scheduled(SCHEDULES[name])), config=HALF, sync=False
        )
    return found


def geo() -> Cases:
    """Trainers that update themselves and send the differences."""
    builds = {
        "sgd": trained(sgd),
        "adam": trained(adam),
        "table": trained(sgd, words()),
        "two_tables": trained(sgd, sources.two_tables()),
        "table_v2": trained(sgd, sources.words_of_v2),
        "wide": trained(sgd, sources.wide_fc),
    }
    return {
        **grid("geo_", builds, mode="geo", config=GEO, sync=False, ids=(0, 1), pairs=True),
        **grid("geo_config_", {name: builds[name] for name in ("sgd", "table")}, config=GEO, sync=False),
        "geo_idle_server": Case(
            trained(sgd, sources.one_fc), mode="geo", config=GEO, sync=False, endpoints=FIVE, pairs=True
        ),
        "geo_clip_old": Case(
            PENALTIES["clip_global_norm_old"], mode="geo", config=GEO, sync=False, pairs=True
        ),
        "geo_table_twice": Case(TABLES["table_twice"], mode="geo", config=GEO, sync=False, pairs=True),
        "geo_adadelta": Case(trained(OPTIMIZERS["adadelta"]), mode="geo", config=GEO, sync=False, pairs=True),
        "geo_decay": Case(
            trained(scheduled(SCHEDULES["piecewise"])), mode="geo", config=GEO, sync=False, pairs=True
        ),
        "geo_whole": Case(
            trained(sgd), mode="geo", config={**GEO, "slice_var_up": False}, sync=False, seed=5, pairs=True
        ),
    }


def refusals() -> Cases:
    """Programs and arguments that 1.8.5 was never asked for, or refuses."""
    return {
        "odd_forward": Case(sources.only_forward),
        "odd_backward": Case(sources.only_backward),
        "odd_large_id": Case(trained(sgd), ids=(5,)),
        "odd_same_servers": Case(trained(sgd), endpoints="127.0.0.1:6174,127.0.0.1:6174"),
        "odd_distributed_hash": Case(
            trained(adam, words(distributed=True)), config={"split_method": "HashName"}
        ),
    }


def collectives() -> Cases:
    """Modes without servers."""
    found: Cases = {}
    several = {
        "sgd": trained(sgd),
        "adam": trained(adam),
        "decay": trained(scheduled(SCHEDULES["noam"])),
        "batch_norm": PROGRAMS["batch_norm"],
        "clip_global_norm": PENALTIES["clip_global_norm"],
        "l2": PENALTIES["l2"],
        "shared": PROGRAMS["shared"],
        "two_optimizers": PROGRAMS["two_optimizers"],
        "table": TABLES["dense_table"],
        "sparse": TABLES["sparse"],
        "repeated": PROGRAMS["repeated"],
        "frozen": PROGRAMS["frozen"],
        "forward": sources.only_forward,
        "piecewise": trained(scheduled(SCHEDULES["piecewise"])),
        "scoped": PROGRAMS["scoped"],
    }
    for mode in ("grad_allreduce", "local_sgd", "single_process_multi_thread"):
        found.update(grid(mode + "_", several, mode="class", config={"collective_mode": mode}))
        found[mode + "_config"] = Case(
            trained(adam), mode="collective", config={"collective_mode": mode}, ids=(0, 1)
        )
        found[mode + "_four"] = Case(
            trained(sgd), mode="collective", config={"collective_mode": mode}, endpoints=FOUR, ids=(0, 3)
        )
        found[mode + "_alone"] = Case(
            trained(sgd), mode="class", config={"collective_mode": mode}, endpoints="127.0.0.1:6174"
        )
    for mode in ("grad_allreduce", "local_sgd"):
        for rings in (1, 3):
            found[f"{mode}_rings{rings}"] = Case(
                trained(sgd), mode="class", config={"collective_mode": mode}, rings=rings
            )
    return {**found, **grids_of_nccl2()}


def grids_of_nccl2() -> Cases:
    hierarchical = {"use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2}
    return {
        "nccl2": Case(trained(sgd), mode="nccl2", ids=(0, 1)),
        "nccl2_adam": Case(trained(adam), mode="nccl2"),
        "nccl2_decay": Case(trained(scheduled(SCHEDULES["noam"])), mode="nccl2"),
        "nccl2_two_rings": Case(trained(sgd), mode="nccl2", config={"nccl_comm_num": 2}, ids=(0, 1)),
        "nccl2_hierarchical": Case(
            trained(sgd), mode="nccl2", config=hierarchical, endpoints=FOUR, ids=(0, 1, 2, 3)
        ),
        "nccl2_hierarchical_rings": Case(
            trained(sgd),
            mode="nccl2",
            config={**hierarchical, "nccl_comm_num": 2},
            endpoints=FOUR,
            ids=(0, 3),
        ),
        "nccl2_one": Case(trained(sgd), mode="nccl2", endpoints="127.0.0.1:6174"),
        "nccl2_table": Case(TABLES["sparse"], mode="nccl2"),
        "nccl2_batch_norm": Case(PROGRAMS["batch_norm"], mode="nccl2"),
        "nccl2_async": Case(trained(sgd), mode="nccl2", sync=False),
    }


CASES: Cases = {**families(), **placements(), **keeping_step(), **geo(), **refusals(), **collectives()}
