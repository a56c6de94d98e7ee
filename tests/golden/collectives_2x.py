"""Programs of the collective functions of 2.x, by name: functions of `paddle`, x and y [4, 6]."""

from __future__ import annotations

from typing import Any

_NAMES = (
    "all_gather all_gather_object all_reduce alltoall alltoall_single barrier batch_isend_irecv "
    "broadcast broadcast_object_list destroy_process_group gather get_backend get_group get_rank "
    "get_world_size gloo_barrier gloo_init_parallel_env gloo_release init_parallel_env irecv "
    "is_available is_initialized isend launch new_group recv reduce reduce_scatter scatter "
    "scatter_object_list send spawn split wait P2POp CountFilterEntry ProbabilityEntry ShowClickEntry "
    "stream.all_gather stream.all_reduce stream.alltoall stream.alltoall_single stream.broadcast "
    "stream.gather stream.recv stream.reduce stream.reduce_scatter stream.scatter stream.send "
    "InMemoryDataset.init InMemoryDataset.global_shuffle InMemoryDataset.load_into_memory rpc.init_rpc "
    "rpc.rpc_sync rpc.rpc_async rpc.shutdown rpc.get_worker_info rpc.get_all_worker_infos "
    "rpc.get_current_worker_info"
)
SIGNATURES = _NAMES.split()


def programs(paddle: Any) -> dict[str, Any]:
    """Name -> a function that appends ops for x and y."""
    d = paddle.distributed

    def more(rows: int) -> Any:
        return paddle.static.data("z", [rows, 6], "float32")

    def ids() -> Any:
        return paddle.static.data("ids", [4, 3], "int64")

    found = {
        "all_reduce_later": lambda x, y: d.all_reduce(x, sync_op=False),
        "stream_all_reduce": lambda x, y: d.stream.all_reduce(x, use_calc_stream=True),
        "all_gather": lambda x, y: d.all_gather([], x),
        "all_gather_later": lambda x, y: d.all_gather([y], x, sync_op=False),
        "broadcast": lambda x, y: d.broadcast(x, 1),
        "scatter": lambda x, y: d.scatter(x, [x, y], 0),
        "scatter_from_another": lambda x, y: d.scatter(x, None, 1),
        "alltoall": lambda x, y: d.alltoall([x, y], []),
        "stream_alltoall": lambda x, y: d.stream.alltoall(y, x),
        "stream_reduce_scatter": lambda x, y: d.stream.reduce_scatter(x, more(8)),
        "send": lambda x, y: d.send(x, 1),
        "recv": lambda x, y: d.recv(x, 1),
        "isend": lambda x, y: d.isend(x, 1),
        "irecv": lambda x, y: d.irecv(x, 1),
        "barrier": lambda x, y: d.barrier(),
        "wait": lambda x, y: d.wait(x),
        "wait_for_ring": lambda x, y: d.wait(x, use_calc_stream=False),
        "columns": lambda x, y: d.split(x, (6, 8), "linear", axis=1, num_partitions=2),
        "columns_apart": lambda x, y: d.split(
            x, (6, 8), "linear", axis=1, num_partitions=2, gather_out=False, bias_attr=False, name="mine"
        ),
        "rows": lambda x, y: d.split(x, (6, 8), "linear", num_partitions=2, bias_attr=False),
        "rows_with_bias": lambda x, y: d.split(x, (6, 8), "linear", num_partitions=2),
        "vocabulary": lambda x, y: d.split(ids(), (8, 6), "embedding", num_partitions=2),
    }
    for op in range(4):
        found[f"all_reduce_{op}"] = lambda x, y, op=op: d.all_reduce(x, op)
        found[f"reduce_{op}"] = lambda x, y, op=op: d.reduce(x, 1, op)
    return found
