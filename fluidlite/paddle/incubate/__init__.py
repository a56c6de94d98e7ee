"""`paddle.incubate`: functions under their earlier names."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.geometric": "segment_max segment_mean segment_min segment_sum",
        "fluidlite.paddle.incubate.graphs": "graph_khop_sampler graph_reindex graph_sample_neighbors "
        "graph_send_recv",
        "fluidlite.paddle.incubate.optimizers": "LookAhead ModelAverage",
        "fluidlite.paddle.incubate.operators": "identity_loss softmax_mask_fuse "
        "softmax_mask_fuse_upper_triangle",
    },
    "asp autograd autotune nn",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
