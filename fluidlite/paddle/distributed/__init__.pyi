# written by tests/house/stubs.py
"""`paddle.distributed`: jobs of many processes under the names of 2.x"""

from fluidlite.paddle.distributed import collective as collective
from fluidlite.paddle.distributed import communication as communication
from fluidlite.paddle.distributed import entry_attr as entry_attr
from fluidlite.paddle.distributed import fleet as fleet
from fluidlite.paddle.distributed import io as io
from fluidlite.paddle.distributed import launch_ps as launch_ps
from fluidlite.paddle.distributed import parallel as parallel
from fluidlite.paddle.distributed import rpc as rpc
from fluidlite.paddle.distributed.communication import stream as stream
from fluidlite.paddle.distributed.communication.calls import P2POp as P2POp
from fluidlite.paddle.distributed.communication.calls import all_gather as all_gather
from fluidlite.paddle.distributed.communication.calls import all_reduce as all_reduce
from fluidlite.paddle.distributed.communication.calls import alltoall as alltoall
from fluidlite.paddle.distributed.communication.calls import alltoall_single as alltoall_single
from fluidlite.paddle.distributed.communication.calls import barrier as barrier
from fluidlite.paddle.distributed.communication.calls import batch_isend_irecv as batch_isend_irecv
from fluidlite.paddle.distributed.communication.calls import broadcast as broadcast
from fluidlite.paddle.distributed.communication.calls import gather as gather
from fluidlite.paddle.distributed.communication.calls import irecv as irecv
from fluidlite.paddle.distributed.communication.calls import isend as isend
from fluidlite.paddle.distributed.communication.calls import recv as recv
from fluidlite.paddle.distributed.communication.calls import reduce as reduce
from fluidlite.paddle.distributed.communication.calls import reduce_scatter as reduce_scatter
from fluidlite.paddle.distributed.communication.calls import scatter as scatter
from fluidlite.paddle.distributed.communication.calls import send as send
from fluidlite.paddle.distributed.communication.calls import wait as wait
from fluidlite.paddle.distributed.communication.group import Group as Group
from fluidlite.paddle.distributed.communication.group import destroy_process_group as destroy_process_group
from fluidlite.paddle.distributed.communication.group import get_backend as get_backend
from fluidlite.paddle.distributed.communication.group import get_group as get_group
from fluidlite.paddle.distributed.communication.group import new_group as new_group
from fluidlite.paddle.distributed.communication.objects import all_gather_object as all_gather_object
from fluidlite.paddle.distributed.communication.objects import broadcast_object_list as broadcast_object_list
from fluidlite.paddle.distributed.communication.objects import scatter_object_list as scatter_object_list
from fluidlite.paddle.distributed.communication.tensors import ReduceOp as ReduceOp
from fluidlite.paddle.distributed.datasets import CountFilterEntry as CountFilterEntry
from fluidlite.paddle.distributed.datasets import InMemoryDataset as InMemoryDataset
from fluidlite.paddle.distributed.datasets import ProbabilityEntry as ProbabilityEntry
from fluidlite.paddle.distributed.datasets import QueueDataset as QueueDataset
from fluidlite.paddle.distributed.datasets import ShowClickEntry as ShowClickEntry
from fluidlite.paddle.distributed.environment import ParallelEnv as ParallelEnv
from fluidlite.paddle.distributed.gloo import gloo_barrier as gloo_barrier
from fluidlite.paddle.distributed.gloo import gloo_init_parallel_env as gloo_init_parallel_env
from fluidlite.paddle.distributed.gloo import gloo_release as gloo_release
from fluidlite.paddle.distributed.launch.main import launch as launch
from fluidlite.paddle.distributed.parallel import ParallelMode as ParallelMode
from fluidlite.paddle.distributed.parallel import get_rank as get_rank
from fluidlite.paddle.distributed.parallel import get_world_size as get_world_size
from fluidlite.paddle.distributed.parallel import init_parallel_env as init_parallel_env
from fluidlite.paddle.distributed.parallel import is_available as is_available
from fluidlite.paddle.distributed.parallel import is_initialized as is_initialized
from fluidlite.paddle.distributed.sharded_layers import split as split
from fluidlite.paddle.distributed.spawning import spawn as spawn
from types import ModuleType as _ModuleType
from typing import Any as _Any

DistAttr: _Any
Partial: _Any
Placement: _Any
ProcessMesh: _Any
ReduceType: _Any
Replicate: _Any
Shard: _Any
Strategy: _Any
dtensor_from_fn: _Any
load_state_dict: _Any
passes: _ModuleType
reshard: _Any
save_state_dict: _Any
shard_layer: _Any
shard_optimizer: _Any
shard_tensor: _Any
sharding: _ModuleType
to_static: _Any
