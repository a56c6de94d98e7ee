"""`fluid.contrib.layers`: layers that fluid keeps beside its core."""

from __future__ import annotations

from fluidlite.contrib.layers import metric_op, nn, rnn_impl
from fluidlite.contrib.layers.metric_op import ctr_metric_bundle
from fluidlite.contrib.layers.nn import (
    fused_elemwise_activation,
    fused_embedding_seq_pool,
    index_sample,
    match_matrix_tensor,
    multiclass_nms2,
    partial_concat,
    partial_sum,
    rank_attention,
    search_pyramid_hash,
    sequence_topk_avg_pooling,
    shuffle_batch,
    sparse_embedding,
    tdm_child,
    tdm_sampler,
    tree_conv,
    var_conv_2d,
)
from fluidlite.contrib.layers.rnn_impl import BasicGRUUnit, BasicLSTMUnit, basic_gru, basic_lstm
from fluidlite.ir.guarded import guarded

__all__ = [
    "BasicGRUUnit",
    "BasicLSTMUnit",
    "basic_gru",
    "basic_lstm",
    "ctr_metric_bundle",
    "fused_elemwise_activation",
    "fused_embedding_seq_pool",
    "index_sample",
    "match_matrix_tensor",
    "metric_op",
    "multiclass_nms2",
    "nn",
    "partial_concat",
    "partial_sum",
    "rank_attention",
    "rnn_impl",
    "search_pyramid_hash",
    "sequence_topk_avg_pooling",
    "shuffle_batch",
    "sparse_embedding",
    "tdm_child",
    "tdm_sampler",
    "tree_conv",
    "var_conv_2d",
]

globals().update(guarded(__name__, __all__))
