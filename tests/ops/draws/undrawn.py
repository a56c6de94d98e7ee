"""Parameters that no generator draws, each with its reason (`tests/beside/test_parameters.py`)."""

from __future__ import annotations

__all__ = ["undrawn"]

# reason -> function, or "module: functions" -> parameters
REASONS: dict[str, dict[str, str]] = {
    "names a variable, which others draw": {
        "fluid.contrib.layers.BasicGRUUnit": "bias_attr param_attr",
        "fluid.contrib.layers.BasicLSTMUnit": "bias_attr param_attr",
        "fluid.contrib.layers.basic_gru": "bias_attr param_attr",
        "fluid.contrib.layers.basic_lstm": "bias_attr param_attr",
        "fluid.contrib.layers.fused_embedding_seq_pool": "param_attr",
        "fluid.contrib.layers.match_matrix_tensor": "param_attr",
        "fluid.contrib.layers.var_conv_2d": "param_attr",
        "fluid.layers.data_norm": "moving_mean_name moving_variance_name",
        "fluid.nets.sequence_conv_pool": "bias_attr param_attr",
        "paddle.nn.Bilinear": "weight_attr",
        "paddle.nn.HSigmoidLoss": "weight_attr",
        "paddle.static.nn.data_norm": "moving_mean_name moving_variance_name",
    },
    "has one value that is taken": {
        "fluid.contrib.layers.fused_embedding_seq_pool": "dtype",
        "fluid.contrib.layers.match_matrix_tensor": "dtype",
        "fluid.contrib.layers.search_pyramid_hash": "dtype",
        "fluid.contrib.layers.tdm_sampler": "dtype tree_dtype",
        "fluid.contrib.layers.var_conv_2d": "dtype",
        "fluid.layers.auc": "topk",
        "fluid.layers.sequence_conv": "filter_stride",
        "paddle.nn.InstanceNorm1D": "data_format",
        "paddle.nn.InstanceNorm2D": "data_format",
        "paddle.nn.InstanceNorm3D": "data_format",
        "paddle.linalg.lu": "pivot",
        "paddle.static.auc": "ins_tag_weight topk",
        "paddle.static.ctr_metric_bundle": "ins_tag_weight",
        "paddle.to_tensor": "place",
        "paddle.nn.functional.class_center_sample": "group",
    },
    "chooses a device, a kernel or where something is counted; numbers do not change": {
        "fluid.initializer.Constant": "force_cpu",
        "fluid.initializer.ConstantInitializer": "force_cpu",
        "fluid.layers.data_norm": "sync_stats",
        "fluid.nets.img_conv_group": "use_cudnn",
        "fluid.nets.simple_img_conv_pool": "use_cudnn",
        "fluid.layers.while_loop": "is_test",
        "fluid.layers.dynamic_decode": "is_test",
        "paddle.optimizer.Adam": "multi_precision use_multi_tensor",
        "paddle.optimizer.AdamW": "multi_precision",
        "paddle.optimizer.Lamb": "always_adapt multi_precision",
        "paddle.optimizer.Momentum": "multi_precision use_multi_tensor",
        "paddle.optimizer.SGD": "multi_precision",
        "paddle.static.create_global_var": "force_cpu",
        "paddle.static.nn.conv2d": "use_cudnn",
        "paddle.static.nn.conv2d_transpose": "use_cudnn",
        "paddle.static.nn.conv3d": "use_cudnn",
        "paddle.static.nn.conv3d_transpose": "use_cudnn",
        "paddle.static.nn.data_norm": "sync_stats",
        "paddle.static.nn.sequence_pool": "is_test",
        "paddle.static.nn.sequence_softmax": "use_cudnn",
        "paddle.static.nn.while_loop": "is_test",
        "paddle.geometric.reindex_graph": "index_buffer value_buffer",
        "paddle.geometric.reindex_heter_graph": "index_buffer value_buffer",
        "paddle.incubate.graph_reindex": "flag_buffer_hashtable index_buffer value_buffer",
    },
    "is for jobs of several processes: their tests": {
        "fluid.contrib.layers.search_pyramid_hash": "distribute_update_vars",
        "fluid.embedding": "is_distributed",
        "fluid.input.embedding": "is_distributed",
        "fluid.layers.embedding": "is_distributed",
        "paddle.static.append_backward": "distop_context",
        "paddle.nn.ClipGradByGlobalNorm": "auto_skip_clip group_name",
    },
    "chooses parameters, or calls Python: tests of optimizers and of backward": {
        "fluid.clip.GradientClipByGlobalNorm": "group_name need_clip",
        "fluid.clip.GradientClipByNorm": "need_clip",
        "fluid.clip.GradientClipByValue": "need_clip",
        "fluid.clip.set_gradient_clip": "param_list program",
        (
            "fluid.optimizer: Adadelta AdadeltaOptimizer Adagrad AdagradOptimizer Adam "
            "AdamOptimizer Adamax AdamaxOptimizer DecayedAdagrad DecayedAdagradOptimizer "
            "Dpsgd DpsgdOptimizer Ftrl FtrlOptimizer LambOptimizer LarsMomentum "
            "LarsMomentumOptimizer Momentum MomentumOptimizer RMSPropOptimizer SGD "
            "SGDOptimizer"
        ): "parameter_list",
        "fluid.optimizer.ModelAverage": "regularization",
        "paddle.nn.ClipGradByNorm": "need_clip",
        "paddle.nn.ClipGradByValue": "need_clip",
        "paddle.ParamAttr": "do_model_average",
        "paddle.optimizer.AdamW": "apply_decay_param_fun lr_ratio",
        "paddle.optimizer.Lamb": "exclude_from_weight_decay_fn",
        "paddle.optimizer.lr.CyclicLR": "scale_fn scale_mode",
        "paddle.static.ExponentialMovingAverage": "thres_steps",
        "paddle.static.append_backward": "callbacks checkpoints no_grad_set parameter_list",
        "paddle.static.gradients": "no_grad_set target_gradients",
        "paddle.static.nn.py_func": "backward_func skip_vars_in_backward_input",
        "paddle.static.py_func": "backward_func skip_vars_in_backward_input",
        "paddle.nn.Transformer": "custom_decoder custom_encoder",
    },
    "prints a line": {
        (
            "paddle.optimizer.lr: CosineAnnealingDecay CosineAnnealingWarmRestarts CyclicLR "
            "ExponentialDecay InverseTimeDecay LambdaDecay LinearLR LinearWarmup "
            "MultiStepDecay MultiplicativeDecay NaturalExpDecay NoamDecay OneCycleLR "
            "PiecewiseDecay PolynomialDecay ReduceOnPlateau StepDecay"
        ): "verbose"
    },
    "is a part of a loop or of branches, whose generator makes it": {
        "fluid.contrib.layers.index_sample": "index x",
        "fluid.layers.Assert": "cond data summarize",
        "fluid.layers.array_to_lod_tensor": "table x",
        "fluid.layers.lod_rank_table": "level x",
        "fluid.layers.lod_tensor_to_array": "table x",
        "fluid.layers.max_sequence_len": "rank_table",
        "fluid.layers.merge_lod_tensor": "in_false in_true level mask x",
        "fluid.layers.select_input": "inputs mask",
        "fluid.layers.select_output": "input mask outputs",
        "fluid.layers.shrink_memory": "i table x",
        "fluid.layers.split_lod_tensor": "input level mask",
    },
    "what is drawn elsewhere makes the same ops": {
        "fluid.layers.GRUCell": "dtype",
        "fluid.layers.LSTMCell": "dtype",
        "fluid.layers.beam_search": "level",
        "fluid.layers.create_parameter": "default_initializer",
        "fluid.layers.data": "lod_level stop_gradient type",
        "fluid.layers.elementwise_floordiv": "act",
        "fluid.layers.prroi_pool": "batch_roi_nums",
        "fluid.layers.roi_align": "rois_lod",
        "fluid.layers.roi_pool": "rois_lod",
        "paddle.assign": "output",
        (
            "paddle: bitwise_and bitwise_and_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ "
            "bitwise_xor bitwise_xor_ logical_and_ logical_not logical_not_ logical_or_"
        ): "out",
        "paddle.metric.accuracy": "correct total",
        "paddle.static.accuracy": "correct total",
        "paddle.nn.BatchNorm": "dtype trainable_statistics use_global_stats",
        "paddle.nn.HSigmoidLoss": "is_custom is_sparse",
        "paddle.nn.UpsamplingBilinear2D": "data_format",
        "paddle.nn.UpsamplingNearest2D": "data_format",
        "paddle.nn.functional.hsigmoid_loss": "is_sparse path_code path_table",
        "paddle.nn.functional.softmax": "dtype",
        "paddle.nn.functional.softmax_": "dtype",
        "paddle.static.nn.data_norm": "data_layout in_place",
        "paddle.static.WeightNormParamAttr": (
            "do_model_average initializer learning_rate need_clip regularizer trainable"
        ),
    },
    "moves only what is drawn at random": {
        "fluid.initializer.Uniform": "diag_num diag_step diag_val",
        "fluid.initializer.UniformInitializer": "diag_num diag_step diag_val",
        "fluid.layers.SampleEmbeddingHelper": "softmax_temperature",
        "paddle.incubate.nn.functional.fused_dropout_add": "mode",
        "paddle.nn.Dropout": "axis",
        "paddle.nn.Dropout2D": "data_format",
        "paddle.nn.Dropout3D": "data_format",
        "paddle.nn.Transformer": "dropout",
        "paddle.nn.functional.scaled_dot_product_attention": "training",
        "paddle.nn.initializer.KaimingNormal": "fan_in",
        "paddle.nn.initializer.KaimingUniform": "fan_in",
        "paddle.nn.initializer.Orthogonal": "gain",
        "paddle.nn.initializer.Uniform": "high low",
        "paddle.nn.initializer.set_global_initializer": "bias_init",
    },
}


def undrawn() -> dict[str, frozenset[str]]:
    """Function -> its parameters that its generator does not draw."""
    found: dict[str, frozenset[str]] = {}
    for functions in REASONS.values():
        for names, parameters in functions.items():
            for name in _paths(names):
                found[name] = found.get(name, frozenset()) | frozenset(parameters.split())
    return found


def _paths(names: str) -> list[str]:
    module, _, several = names.partition(": ")
    return [f"{module}.{name}" for name in several.split()] or [names]
