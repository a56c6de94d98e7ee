# written by tests/house/stubs.py
"""`paddle.incubate`: functions under their earlier names."""

from fluidlite.paddle.geometric import segment_max as segment_max
from fluidlite.paddle.geometric import segment_mean as segment_mean
from fluidlite.paddle.geometric import segment_min as segment_min
from fluidlite.paddle.geometric import segment_sum as segment_sum
from fluidlite.paddle.incubate import asp as asp
from fluidlite.paddle.incubate import autograd as autograd
from fluidlite.paddle.incubate import autotune as autotune
from fluidlite.paddle.incubate import nn as nn
from fluidlite.paddle.incubate.graphs import graph_khop_sampler as graph_khop_sampler
from fluidlite.paddle.incubate.graphs import graph_reindex as graph_reindex
from fluidlite.paddle.incubate.graphs import graph_sample_neighbors as graph_sample_neighbors
from fluidlite.paddle.incubate.graphs import graph_send_recv as graph_send_recv
from fluidlite.paddle.incubate.operators import identity_loss as identity_loss
from fluidlite.paddle.incubate.operators import softmax_mask_fuse as softmax_mask_fuse
from fluidlite.paddle.incubate.operators import softmax_mask_fuse_upper_triangle as softmax_mask_fuse_upper_triangle
from fluidlite.paddle.incubate.optimizers import LookAhead as LookAhead
from fluidlite.paddle.incubate.optimizers import ModelAverage as ModelAverage
