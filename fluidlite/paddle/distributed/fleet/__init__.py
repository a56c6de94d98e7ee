"""`paddle.distributed.fleet`: jobs of many processes; its functions are methods of one `Fleet`."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames
from fluidlite.base.refusals import Refusals
from fluidlite.incubate.data_generator import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from fluidlite.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from fluidlite.paddle.distributed.fleet.base.fleet_base import Fleet
from fluidlite.paddle.distributed.fleet.base.role_maker import (
    PaddleCloudRoleMaker,
    Role,
    UserDefinedRoleMaker,
)
from fluidlite.paddle.distributed.fleet.base.util_factory import UtilBase

__all__ = [
    "DistributedStrategy",
    "Fleet",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "PaddleCloudRoleMaker",
    "Role",
    "UserDefinedRoleMaker",
    "UtilBase",
]

fleet = Fleet()
util = fleet.util
init = fleet.init
is_first_worker = fleet.is_first_worker
worker_index = fleet.worker_index
worker_num = fleet.worker_num
rank = fleet.rank
nranks = fleet.nranks
world_size = fleet.world_size
node_num = fleet.node_num
local_rank = fleet.local_rank
rank_in_node = fleet.rank_in_node
local_device_ids = fleet.local_device_ids
world_device_ids = fleet.world_device_ids
is_worker = fleet.is_worker
is_coordinator = fleet.is_coordinator
worker_endpoints = fleet.worker_endpoints
server_num = fleet.server_num
server_index = fleet.server_index
server_endpoints = fleet.server_endpoints
is_server = fleet.is_server
barrier_worker = fleet.barrier_worker
all_reduce = fleet.all_reduce
init_worker = fleet.init_worker
init_server = fleet.init_server
run_server = fleet.run_server
stop_worker = fleet.stop_worker
distributed_optimizer = fleet.distributed_optimizer
minimize = fleet.minimize
save_inference_model = fleet.save_inference_model
save_persistables = fleet.save_persistables
job = fleet.job
explain = fleet.explain

_SERVERS = Refusals(
    "paddle.distributed.fleet",
    "belongs to servers, caches or federated learning of 2.x, which FluidLite does not have",
    classes="BoxPSDataset FileInstantDataset",
    functions="check_save_pre_patch_done get_fl_client init_coordinator load_inference_model load_model "
    "load_one_table make_fl_strategy save_cache_model save_cache_table save_dense_params save_one_table "
    "shrink",
)
_REFUSED = Refusals(
    "paddle.distributed.fleet",
    "programs can only be split along the batch dimension so far; there is no imperative mode",
    classes="CommunicateTopology HybridCommunicateGroup",
    functions="distributed_model distributed_scaler get_hybrid_communicate_group",
)


_NAMES = LazyNames(
    __name__,
    {"fluidlite.paddle.distributed.datasets": "InMemoryDataset QueueDataset"},
    "base data_generator dataset metrics utils",
)


def __getattr__(name: str) -> object:
    for refused in (_REFUSED, _SERVERS):
        if name in refused.names:
            return refused.get(name)
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES.names(), *_REFUSED.names, *_SERVERS.names})
