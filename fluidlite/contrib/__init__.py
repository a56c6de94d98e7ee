"""Parts that fluid keeps beside its core."""

from __future__ import annotations

from fluidlite.contrib import layers, memory_usage_calc, mixed_precision, op_frequence, quantize, reader, slim
from fluidlite.contrib.extend_optimizer import extend_with_decoupled_weight_decay
from fluidlite.contrib.layers import (
    BasicGRUUnit,
    BasicLSTMUnit,
    basic_gru,
    basic_lstm,
    ctr_metric_bundle,
    fused_elemwise_activation,
    fused_embedding_seq_pool,
    index_sample,
    match_matrix_tensor,
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
from fluidlite.contrib.memory_usage_calc import memory_usage
from fluidlite.contrib.op_frequence import op_freq_statistic
from fluidlite.contrib.quantize import QuantizeTranspiler
from fluidlite.contrib.reader import distributed_batch_reader

__all__ = [
    "BasicGRUUnit",
    "BasicLSTMUnit",
    "QuantizeTranspiler",
    "basic_gru",
    "basic_lstm",
    "ctr_metric_bundle",
    "distributed_batch_reader",
    "extend_with_decoupled_weight_decay",
    "fused_elemwise_activation",
    "fused_embedding_seq_pool",
    "index_sample",
    "layers",
    "match_matrix_tensor",
    "memory_usage",
    "memory_usage_calc",
    "mixed_precision",
    "op_freq_statistic",
    "op_frequence",
    "partial_concat",
    "partial_sum",
    "quantize",
    "rank_attention",
    "reader",
    "search_pyramid_hash",
    "sequence_topk_avg_pooling",
    "shuffle_batch",
    "slim",
    "sparse_embedding",
    "tdm_child",
    "tdm_sampler",
    "tree_conv",
    "var_conv_2d",
]
