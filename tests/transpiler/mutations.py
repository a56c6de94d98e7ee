"""All ways to break a job, by the jobs that they apply to: name -> (rule that must catch it, mutation)."""

from __future__ import annotations

import rank_mutations
import server_mutations
import special_mutations
import trainer_mutations
from mutation_kit import (
    ASYNC,
    GEO,
    MADE,
    NCCL2,
    PAIRS,
    RANKS,
    SERVERS,
    SNAPSHOTS,
    TABLES,
    Mutation,
    Roles,
    clone,
    ops,
)

MODULES = (rank_mutations, server_mutations, special_mutations, trainer_mutations)  # their import registers
__all__ = [
    "ASYNC",
    "GEO",
    "MADE",
    "NCCL2",
    "PAIRS",
    "RANKS",
    "SERVERS",
    "SNAPSHOTS",
    "TABLES",
    "Mutation",
    "Roles",
    "clone",
    "ops",
]

# those of synchronous jobs that break geo-SGD jobs in the same way
for _name in (
    "recv_renamed",
    "recv_endpoints_swapped",
    "wrong_fanin",
    "server_moved",
    "server_missing",
    "listen_dropped",
    "slices_joined_in_another_order",
    "slice_not_joined",
    "joined_as_columns",
    "join_dropped",
    "gradient_of_another_block",
    "block_run_twice",
    "initialiser_shape",
    "wrong_trainer_id",
    "first_barrier_dropped",
    "initialiser_dropped",
):
    GEO[_name] = SERVERS[_name]
