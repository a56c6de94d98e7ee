"""The messages that a strategy is written to files as, built in a pool of their own.

Numbers and defaults of the fields are those that PaddlePaddle 2.6.2 declares: either reads the other's files.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

__all__ = ["is_repeated", "plain_value", "strategy_message"]

_PACKAGE = "paddle.fleet"
_ENUMS = {
    "Mode": ("COLLECTIVE=1", "PS=2", "PIPELINE=3", "HETER=4"),
    "TableType": ("PS_SPARSE_TABLE=0", "PS_DENSE_TABLE=1"),
}
# message -> its fields: number, name, * repeated, type, and the default
# fmt: off
_MESSAGES = {
    "RefinedOpsPattern": "1 main_ops* string, 2 num int32=0, 3 pre_ops* string, 4 suf_ops* string",
    "RecomputeConfig":
    "1 checkpoints* string, 2 enable_offload bool=false, 3 checkpoint_shape* int32, "
    "4 enable_tuning bool=false, 5 refined_ops_patterns* RefinedOpsPattern",
    "ShardingConfig":
    "1 sharding_segment_strategy string=segment_broadcast_MB, 2 segment_broadcast_MB float=32, "
    "3 segment_anchors* string, 4 sharding_degree int32=8, 5 mp_degree int32=1, 6 dp_degree int32=1, "
    "7 hybrid_dp bool=false, 8 gradient_merge_acc_step int32=1, 9 optimize_offload bool=false, "
    "10 pp_allreduce_in_optimize bool=false, 11 pp_degree int32=1, 12 optimize_cast bool=false, "
    "13 _dp_as_optimizer_sharding bool=false, 14 stage int32=1, 15 enable_tuning bool=false, "
    "16 use_calc_stream bool=false",
    "MpConfig":
    "1 sync_param bool=true, 2 sync_grad bool=false, 3 sync_moment bool=false, "
    "4 sync_mode string=broadcast, 5 mp_async_allreduce bool=false, 6 mp_skip_c_identity bool=false, "
    "7 mp_fused_linear_param_grad_add bool=false, 8 need_broadcast_data bool=true",
    "PpConfig":
    "1 dp_comm_overlap bool=false, 2 delay_scale_loss bool=false, 3 enable_timer bool=false, "
    "4 sharding_comm_overlap bool=false, 5 profiling bool=false",
    "DygraphShardingConfig":
    "1 tensor_fusion bool=false, 2 accumulate_steps int32=1, 3 comm_overlap bool=false, "
    "4 split_param bool=false, 5 fuse_optimizer bool=true",
    "HybridConfig":
    "1 dp_degree int32=-1, 2 mp_degree int32=1, 3 pp_degree int32=1, 4 sharding_degree int32=1, "
    "5 sep_degree int32=1, 6 mp_configs MpConfig, 7 pp_configs PpConfig, "
    "8 sharding_configs DygraphShardingConfig",
    "AMPConfig":
    "1 init_loss_scaling float=32768, 2 incr_every_n_steps int32=1000, "
    "3 decr_every_n_nan_or_inf int32=2, 4 incr_ratio float=2, 5 decr_ratio float=0.8, "
    "6 use_dynamic_loss_scaling bool=true, 7 custom_white_list* string, 8 custom_black_list* string, "
    "9 custom_black_varnames* string, 10 use_pure_fp16 bool=false, 11 use_fp16_guard bool=true, "
    "12 use_optimizer_fp16 bool=false, 13 use_pure_bf16 bool=false",
    "LocalSGDConfig": "1 k_steps int32=1, 2 begin_step int32=1",
    "AdaptiveLocalSGDConfig": "1 init_k_steps int32=1, 2 begin_step int32=1",
    "GradientMergeConfig": "1 k_steps int32=1, 2 avg bool=true",
    "DGCConfig": "1 rampup_begin_step int32=0, 2 rampup_step int32=1, 3 sparsity* float",
    "LarsConfig":
    "1 lars_coeff float=0.001, 2 lars_weight_decay float=0.0005, 3 epsilon float=0, "
    "4 exclude_from_weight_decay* string",
    "LambConfig": "1 lamb_weight_decay float=0.01, 2 exclude_from_weight_decay* string",
    "BuildStrategy":
    "1 enable_sequential_execution bool=false, 2 fuse_elewise_add_act_ops bool=false, "
    "3 fuse_bn_act_ops bool=false, 4 fuse_relu_depthwise_conv bool=false, "
    "5 fuse_broadcast_ops bool=false, 6 fuse_all_optimizer_ops bool=false, "
    "7 enable_inplace bool=false, 8 enable_backward_optimizer_op_deps bool=true, "
    "9 cache_runtime_context bool=false, 10 fuse_bn_add_act_ops bool=true, "
    "11 enable_auto_fusion bool=false, 12 enable_addto bool=false, 13 fix_op_run_order bool=false, "
    "14 allow_cuda_graph_capture bool=false, 15 reduce_strategy int32=0, "
    "16 fuse_gemm_epilogue bool=false, 17 debug_graphviz_path string, 18 fused_attention bool=false, "
    "19 fused_feedforward bool=false",
    "ExecutionStrategy":
    "1 num_threads int32=1, 2 num_iteration_per_drop_scope int32=10, "
    "3 num_iteration_per_run int32=1, 4 use_thread_barrier bool=false",
    "GradientScaleConfig": "1 scale_strategy string=avg, 2 scale_gradient bool=false",
    "AsyncConfig":
    "1 k_steps int32=-1, 2 max_merge_var_num int32=1, 3 send_queue_size int32=16, "
    "4 independent_recv_thread bool=false, 5 min_send_grad_num_before_recv int32=1, "
    "6 thread_pool_size int32=1, 7 send_wait_times int32=1, 8 runtime_split_send_recv bool=false, "
    "9 launch_barrier bool=true, 10 heter_worker_device_guard string=cpu, "
    "11 lr_decay_steps int32=10, 12 use_ps_gpu int32=0",
    "TrainerDescConfig":
    "1 dump_fields_path string, 2 dump_fields* string, 3 dump_param* string, "
    "4 stat_var_names* string, 5 trainer string, 6 device_worker string, 7 local_sparse* string, "
    "8 remote_sparse* string",
    "PipelineConfig":
    "1 micro_batch_size int32=1, 2 accumulate_steps int32=1, 3 schedule_mode string=1F1B, "
    "4 p2p_cache_shape bool=true, 5 enable_partial_send_recv bool=true",
    "TensorParallelConfig": "1 tensor_parallel_degree int32=1, 2 tensor_init_seed int32=-1",
    "QatConfig":
    "1 channel_wise_abs_max bool=true, 2 weight_bits int32=8, 3 activation_bits int32=8, "
    "4 not_quant_pattern* string, 5 algo string",
    "TableParameter":
    "1 table_id uint64, 2 table_name string, 3 table_class string, 4 shard_num uint64=1000, "
    "5 type TableType, 6 accessor TableAccessorParameter, 7 compress_in_save bool=false, "
    "10 enable_sparse_table_cache bool=true, 11 sparse_table_cache_rate double=0.00055, "
    "12 sparse_table_cache_file_num uint32=16, 13 enable_revert bool=false, "
    "14 shard_merge_rate float=1",
    "TableAccessorParameter":
    "1 accessor_class string, 4 fea_dim uint32=11, 5 embedx_dim uint32=8, "
    "6 embedx_threshold uint32=10, 7 ctr_accessor_param CtrAccessorParameter, "
    "8 table_accessor_save_param* TableAccessorSaveParameter, 10 embed_sgd_param SGDParameter, "
    "11 embedx_sgd_param SGDParameter, 12 graph_sgd_param GraphSGDParameter",
    "GraphSGDParameter": "1 nodeid_slot uint32=9008, 2 feature_learning_rate float=0.05",
    "SGDParameter":
    "1 name string, 2 naive SparseNaiveSGDRuleParameter, 3 adagrad SparseAdagradSGDRuleParameter, "
    "4 adam SparseAdamSGDParameter",
    "SparseNaiveSGDRuleParameter":
    "1 learning_rate double=0.05, 2 initial_range double=0.0001, 3 weight_bounds* float",
    "SparseAdagradSGDRuleParameter":
    "1 learning_rate double=0.05, 2 initial_g2sum double=3, 3 initial_range double=0.0001, "
    "4 weight_bounds* float",
    "SparseAdamSGDParameter":
    "1 learning_rate double=0.001, 2 initial_range double=0.0001, 3 beta1_decay_rate double=0.9, "
    "4 beta2_decay_rate double=0.999, 5 ada_epsilon double=1e-08, 6 weight_bounds* float",
    "CtrAccessorParameter":
    "1 nonclk_coeff float=0.1, 2 click_coeff float=1, 3 base_threshold float=1.5, "
    "4 delta_threshold float=0.25, 5 delta_keep_days float=16, 6 show_click_decay_rate float=0.98, "
    "7 delete_threshold float=0.8, 8 delete_after_unseen_days float=30, "
    "9 ssd_unseenday_threshold int32=1, 10 show_scale bool=true, 11 zero_init bool=true, "
    "12 load_filter_slots* float, 13 save_filter_slots* float",
    "TableAccessorSaveParameter": "1 param uint32, 2 converter string, 3 deconverter string",
    "FsClientParameter": "1 uri string, 2 user string, 3 passwd string, 4 hadoop_bin string",
    "DistributedStrategy":
    "1 mode Mode=COLLECTIVE, 2 amp bool=false, 3 recompute bool=false, 4 localsgd bool=false, "
    "5 dgc bool=false, 6 gradient_merge bool=false, 7 lars bool=false, 8 lamb bool=false, "
    "9 pipeline bool=false, 10 elastic bool=false, 11 auto bool=false, 12 a_sync bool=true, "
    "13 sync_nccl_allreduce bool=true, 14 nccl_comm_num int32=1, "
    "15 use_hierarchical_allreduce bool=false, 16 hierarchical_allreduce_inter_nranks int32=1, "
    "17 sync_batch_norm bool=false, 18 fuse_all_reduce_ops bool=true, "
    "19 fuse_grad_size_in_MB int32=32, 20 fuse_grad_size_in_TFLOPS float=50, "
    "21 cudnn_exhaustive_search bool=false, 22 conv_workspace_size_limit int32=512, "
    "23 cudnn_batchnorm_spatial_persistent bool=false, 24 adaptive_localsgd bool=false, "
    "25 fp16_allreduce bool=false, 26 sharding bool=false, 27 last_comm_group_size_MB float=1, "
    "28 find_unused_parameters bool=false, 29 tensor_parallel bool=false, "
    "30 without_graph_optimization bool=true, 31 fuse_grad_size_in_num int32=8, "
    "32 calc_comm_same_stream bool=false, 33 asp bool=false, 34 fuse_grad_merge bool=false, "
    "35 semi_auto bool=false, 36 adam_d2sum bool=false, 37 auto_search bool=false, "
    "38 heter_ccl_mode bool=false, 39 is_fl_ps_mode bool=false, 40 with_coordinator bool=false, "
    "41 qat bool=false, 42 split_data bool=true, 101 recompute_configs RecomputeConfig, "
    "102 amp_configs AMPConfig, 103 localsgd_configs LocalSGDConfig, "
    "104 gradient_merge_configs GradientMergeConfig, 105 dgc_configs DGCConfig, "
    "106 pipeline_configs PipelineConfig, 107 a_sync_configs AsyncConfig, "
    "108 lars_configs LarsConfig, 109 lamb_configs LambConfig, "
    "110 adaptive_localsgd_configs AdaptiveLocalSGDConfig, 111 sharding_configs ShardingConfig, "
    "112 hybrid_configs HybridConfig, 113 tensor_parallel_configs TensorParallelConfig, "
    "114 trainer_desc_configs TrainerDescConfig, 115 downpour_table_param* TableParameter, "
    "116 fs_client_param FsClientParameter, 117 qat_configs QatConfig, "
    "201 build_strategy BuildStrategy, 202 execution_strategy ExecutionStrategy, "
    "203 gradient_scale_configs GradientScaleConfig",
}
# fmt: on


def _add_field(message: Any, text: str) -> None:
    number, name, declared = text.split(" ")
    type_name, _, default = declared.partition("=")
    field = message.field.add(name=name.rstrip("*"), number=int(number))
    field.label = field.LABEL_REPEATED if name.endswith("*") else field.LABEL_OPTIONAL
    if type_name in _MESSAGES or type_name in _ENUMS:
        field.type = field.TYPE_ENUM if type_name in _ENUMS else field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{type_name}"
    else:
        field.type = getattr(field, f"TYPE_{type_name.upper()}")
    if default:
        field.default_value = default


@functools.cache
def strategy_message() -> Any:
    """The class of the message `DistributedStrategy`."""
    # protobuf takes as long to import as all of fluidlite.ir, and most programs have no strategy
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    file = descriptor_pb2.FileDescriptorProto(
        name="fluidlite/distributed_strategy.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value in values:
            spelled, _, number = value.partition("=")
            enum.value.add(name=spelled, number=int(number))
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            _add_field(message, text)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.DistributedStrategy"))


def plain_value(message: Any, field: Any) -> Any:
    """A field's value as Python keeps it: lists for repeated fields, and defaults as they are declared, which
    protobuf rounds to single precision.
    """
    value = getattr(message, field.name)
    if isinstance(value, float) and not message.HasField(field.name):
        return float(f"{value:.7g}")
    return list(value) if is_repeated(value) else value


def is_repeated(value: Any) -> bool:
    """True for the value of a repeated field. How a declaration says that it is one depends on protobuf."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))
