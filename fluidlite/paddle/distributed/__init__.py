"""`paddle.distributed`: jobs of many processes under the names of 2.x"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.distributed.communication": "stream",
        "fluidlite.paddle.distributed.communication.group": "Group destroy_process_group get_backend "
        "get_group new_group",
        "fluidlite.paddle.distributed.communication.calls": "P2POp ReduceOp all_gather all_reduce alltoall "
        "alltoall_single barrier batch_isend_irecv broadcast gather irecv isend recv reduce reduce_scatter "
        "scatter send wait",
        "fluidlite.paddle.distributed.communication.objects": "all_gather_object broadcast_object_list "
        "scatter_object_list",
        "fluidlite.paddle.distributed.launch.main": "launch",
        "fluidlite.paddle.distributed.spawning": "spawn",
        "fluidlite.paddle.distributed.datasets": "CountFilterEntry InMemoryDataset ProbabilityEntry "
        "QueueDataset ShowClickEntry",
        "fluidlite.paddle.distributed.gloo": "gloo_barrier gloo_init_parallel_env gloo_release",
        "fluidlite.paddle.distributed.sharded_layers": "split",
        "fluidlite.paddle.distributed.parallel": "ParallelEnv ParallelMode get_rank get_world_size "
        "init_parallel_env is_available is_initialized",
        "fluidlite.paddle.distributed.auto_parallel": "DistAttr Partial Placement ProcessMesh ReduceType "
        "Replicate Shard Strategy dtensor_from_fn load_state_dict reshard save_state_dict shard_layer "
        "shard_optimizer shard_tensor to_static",
    },
    "collective communication entry_attr fleet io launch_ps parallel passes rpc sharding",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
