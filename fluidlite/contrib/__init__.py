"""Parts that fluid keeps beside its core."""

from __future__ import annotations

from fluidlite.contrib import (
    decoder,
    extend_optimizer,
    layers,
    memory_usage_calc,
    mixed_precision,
    model_stat,
    op_frequence,
    quantize,
    reader,
    slim,
    utils,
)
from fluidlite.contrib.decoder import BeamSearchDecoder, InitState, StateCell, TrainingDecoder
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
from fluidlite.contrib.memory_usage_calc import memory_usage
from fluidlite.contrib.op_frequence import op_freq_statistic
from fluidlite.contrib.quantize import QuantizeTranspiler
from fluidlite.contrib.reader import distributed_batch_reader
from fluidlite.contrib.slim import Compressor
from fluidlite.contrib.training_log import CsvLog, TrainingLog
from fluidlite.contrib.utils import (
    HDFSClient,
    convert_dist_to_sparse_program,
    load_persistables_for_increment,
    load_persistables_for_inference,
    multi_download,
    multi_upload,
)
from fluidlite.ir.guarded import guarded

__all__ = [
    "BasicGRUUnit",
    "BasicLSTMUnit",
    "BeamSearchDecoder",
    "Compressor",
    "CsvLog",
    "HDFSClient",
    "InitState",
    "QuantizeTranspiler",
    "StateCell",
    "TrainingDecoder",
    "TrainingLog",
    "basic_gru",
    "basic_lstm",
    "convert_dist_to_sparse_program",
    "ctr_metric_bundle",
    "decoder",
    "distributed_batch_reader",
    "extend_optimizer",
    "extend_with_decoupled_weight_decay",
    "fused_elemwise_activation",
    "fused_embedding_seq_pool",
    "index_sample",
    "layers",
    "load_persistables_for_increment",
    "load_persistables_for_inference",
    "match_matrix_tensor",
    "multiclass_nms2",
    "memory_usage",
    "memory_usage_calc",
    "mixed_precision",
    "model_stat",
    "multi_download",
    "multi_upload",
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
    "utils",
    "var_conv_2d",
]

globals().update(guarded(__name__, __all__))
