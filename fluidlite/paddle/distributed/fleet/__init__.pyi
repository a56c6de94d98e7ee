# written by tests/house/stubs.py
"""`paddle.distributed.fleet`: jobs of many processes; its functions are methods of one `Fleet`."""

from fluidlite.base.lazy import LazyNames as LazyNames
from fluidlite.base.refusals import Refusals as Refusals
from fluidlite.incubate.data_generator import MultiSlotDataGenerator as MultiSlotDataGenerator
from fluidlite.incubate.data_generator import MultiSlotStringDataGenerator as MultiSlotStringDataGenerator
from fluidlite.paddle.distributed.datasets import InMemoryDataset as InMemoryDataset
from fluidlite.paddle.distributed.datasets import QueueDataset as QueueDataset
from fluidlite.paddle.distributed.fleet import base as base
from fluidlite.paddle.distributed.fleet import composition as composition
from fluidlite.paddle.distributed.fleet import data_generator as data_generator
from fluidlite.paddle.distributed.fleet import dataset as dataset
from fluidlite.paddle.distributed.fleet import merging as merging
from fluidlite.paddle.distributed.fleet import metrics as metrics
from fluidlite.paddle.distributed.fleet import ranks as ranks
from fluidlite.paddle.distributed.fleet import served as served
from fluidlite.paddle.distributed.fleet import utils as utils
from fluidlite.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy as DistributedStrategy
from fluidlite.paddle.distributed.fleet.base.fleet_base import Fleet as Fleet
from fluidlite.paddle.distributed.fleet.base.fleet_base import Fleet as _Fleet
from fluidlite.paddle.distributed.fleet.base.role_maker import PaddleCloudRoleMaker as PaddleCloudRoleMaker
from fluidlite.paddle.distributed.fleet.base.role_maker import Role as Role
from fluidlite.paddle.distributed.fleet.base.role_maker import UserDefinedRoleMaker as UserDefinedRoleMaker
from fluidlite.paddle.distributed.fleet.base.util_factory import UtilBase as UtilBase
from fluidlite.paddle.distributed.fleet.base.util_factory import UtilBase as _UtilBase
from typing import Any as _Any

BoxPSDataset: _Any
CommunicateTopology: _Any
FileInstantDataset: _Any
HybridCommunicateGroup: _Any
check_save_pre_patch_done: _Any
distributed_model: _Any
distributed_scaler: _Any
fleet: _Fleet
get_fl_client: _Any
get_hybrid_communicate_group: _Any
init_coordinator: _Any
load_inference_model: _Any
load_model: _Any
load_one_table: _Any
make_fl_strategy: _Any
save_cache_model: _Any
save_cache_table: _Any
save_dense_params: _Any
save_one_table: _Any
shrink: _Any
util: _UtilBase
all_reduce = fleet.all_reduce
barrier_worker = fleet.barrier_worker
distributed_optimizer = fleet.distributed_optimizer
explain = fleet.explain
init = fleet.init
init_server = fleet.init_server
init_worker = fleet.init_worker
is_coordinator = fleet.is_coordinator
is_first_worker = fleet.is_first_worker
is_server = fleet.is_server
is_worker = fleet.is_worker
job = fleet.job
local_device_ids = fleet.local_device_ids
local_rank = fleet.local_rank
minimize = fleet.minimize
node_num = fleet.node_num
nranks = fleet.worker_num
rank = fleet.worker_index
rank_in_node = fleet.local_rank
run_server = fleet.run_server
save_inference_model = fleet.save_inference_model
save_persistables = fleet.save_persistables
server_endpoints = fleet.server_endpoints
server_index = fleet.server_index
server_num = fleet.server_num
stop_worker = fleet.stop_worker
worker_endpoints = fleet.worker_endpoints
worker_index = fleet.worker_index
worker_num = fleet.worker_num
world_device_ids = fleet.world_device_ids
world_size = fleet.worker_num
