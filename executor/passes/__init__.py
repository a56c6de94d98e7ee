"""Passes over plans: each takes a plan and gives a plan, and changes nothing that it was given.

`PASSES` is the pipeline, in order. To add a pass, write it in a file of its own and name it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fluidlite.executor.passes.compile_loops import compile_loops
from fluidlite.executor.passes.copy_stale import copy_stale
from fluidlite.executor.passes.drop_dead import drop_dead
from fluidlite.executor.passes.fuse_attention import fuse_attention
from fluidlite.executor.passes.fuse_biases import fuse_biases
from fluidlite.executor.passes.fuse_descents import fuse_descents
from fluidlite.executor.passes.fuse_on_device import fuse_on_device
from fluidlite.executor.passes.fuse_on_host import fuse_on_host
from fluidlite.executor.passes.give_arrays import give_arrays
from fluidlite.executor.passes.merge_updates import merge_updates
from fluidlite.executor.passes.overlap_reductions import overlap_reductions
from fluidlite.executor.passes.place_buffers import place_buffers
from fluidlite.executor.passes.share_masks import share_masks
from fluidlite.executor.passes.share_products import share_products
from fluidlite.executor.plan.plan import Plan

__all__ = ["PASSES", "Pass"]

Pass: TypeAlias = Callable[[Plan], Plan]

PASSES: tuple[Pass, ...] = (
    # first: it finds old versions by the order of the steps as lowered, and later stages take for granted
    # that nobody reads one
    copy_stale,
    # early, so that nothing after it spends time or memory on what nobody reads
    drop_dead,
    share_masks,
    give_arrays,
    # before fusion: a wait is no element-wise step, so no fused loop reaches over one
    overlap_reductions,
    # before its element-wise steps become kernels
    fuse_attention,
    # before updates become loops
    fuse_descents,
    # what it leaves of additions is for `fuse_on_host`
    fuse_biases,
    fuse_on_host,
    # the loops that `fuse_on_host` has made
    compile_loops,
    fuse_on_device,
    # merges kernels that `fuse_on_device` has made
    merge_updates,
    share_products,
    # last: fused loops bring buffers of their own, and only now the steps stand in their final order
    place_buffers,
)
