# written by tests/house/stubs.py
"""`paddle.incubate`: functions under their earlier names."""

from fluidlite.paddle.geometric import segment_max as segment_max
from fluidlite.paddle.geometric import segment_mean as segment_mean
from fluidlite.paddle.geometric import segment_min as segment_min
from fluidlite.paddle.geometric import segment_sum as segment_sum
from fluidlite.paddle.incubate.graphs import graph_reindex as graph_reindex
from fluidlite.paddle.incubate.graphs import graph_send_recv as graph_send_recv
