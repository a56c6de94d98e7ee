"""Marks of slots in Paddle's OpProto that do not follow from how the op is declared here.

A declaration says which slots may be absent and which take any number of variables; from that `OpProto`
derives that an output which may be absent is intermediate. These are the slots of 1.8.5's ops for which that
is not so, as `op type.slot`. Nothing else reads them: they are for programs that ask `OpProtoHolder`.
"""

from __future__ import annotations

__all__ = ["DISPENSABLE", "INTERMEDIATE", "MANY", "NEEDED", "NOT_INTERMEDIATE", "SINGLE", "words"]


def words(text: str) -> frozenset[str]:
    """A set of names that stand in one text."""
    return frozenset(text.split())


# outputs that only the gradient or the kernel itself reads
INTERMEDIATE = words(
    "cos_sim.XNorm cos_sim.YNorm data_norm.Means data_norm.Scales "
    "fused_elemwise_activation.IntermediateOut hierarchical_sigmoid.PreOut huber_loss.Residual "
    "linear_chain_crf.Alpha linear_chain_crf.EmissionExps linear_chain_crf.TransitionExps "
    "margin_rank_loss.Activated modified_huber_loss.IntermediateVal nce.SampleLabels nce.SampleLogits "
    "norm.Norm pyramid_hash.X_Temp_Out roi_perspective_transform.Out2InIdx "
    "roi_perspective_transform.Out2InWeights roi_pool.Argmax sample_logits.LabelsDim "
    "sample_logits.LogitsDim sample_logits.Probabilities sample_logits.SampledLogits "
    "sample_logits.Samples sequence_topk_avg_pooling.pos smooth_l1_loss.Diff "
    "softmax_with_cross_entropy.Softmax squared_l2_distance.sub_result warpctc.WarpCTCGrad "
    "yolov3_loss.GTMatchMask yolov3_loss.ObjectnessMask "
)

# outputs that may be absent here, and are not marked so
NOT_INTERMEDIATE = words(
    "adam.Beta1PowOut adam.Beta2PowOut batch_norm.ReserveSpace beam_search.parent_idx "
    "conditional_block.Out conditional_block.Scope conditional_block_infer.Out "
    "conditional_block_infer.Scope ctc_align.OutputLength "
    "fake_quantize_dequantize_moving_average_abs_max.OutAccum "
    "fake_quantize_dequantize_moving_average_abs_max.OutState "
    "fake_quantize_moving_average_abs_max.OutAccum fake_quantize_moving_average_abs_max.OutState "
    "fake_quantize_range_abs_max.OutScales fetch_barrier.Out generate_proposals.RpnRoisLod "
    "inplace_abn.ReserveSpace moving_average_abs_max_scale.OutAccum "
    "moving_average_abs_max_scale.OutState positive_negative_pair.NeutralPair py_func.Out "
    "recurrent.outputs recurrent.step_scopes rmsprop.MeanGradOut rnn_memory_helper_grad.X@GRAD "
    "save.kLookupTablePath save_combine.Y send_barrier.Out tdm_sampler.Labels while.Out "
    "while.StepScopes "
)

# slots that may be absent
DISPENSABLE = words(
    "batch_norm.ReserveSpace beam_search.parent_idx ctc_align.OutputLength "
    "fake_quantize_dequantize_moving_average_abs_max.OutAccum "
    "fake_quantize_dequantize_moving_average_abs_max.OutState "
    "fake_quantize_moving_average_abs_max.OutAccum fake_quantize_moving_average_abs_max.OutState "
    "fake_quantize_range_abs_max.OutScales generate_proposals.RpnRoisLod inplace_abn.ReserveSpace "
    "moving_average_abs_max_scale.OutAccum moving_average_abs_max_scale.OutState "
    "positive_negative_pair.NeutralPair save.kLookupTablePath save_combine.Y tdm_sampler.Labels "
    "box_decoder_and_assign.PriorBoxVar "
)

# inputs that may be absent here, and must not in Paddle
NEEDED = words(
    "conditional_block.Input conditional_block_infer.Input feed.X instance_norm.Bias "
    "instance_norm.Scale listen_and_serv.X merge_lod_tensor.InFalse merge_lod_tensor.InTrue "
    "merge_lod_tensor_infer.InFalse merge_lod_tensor_infer.InTrue py_func.X random_crop.Seed "
    "recurrent.initial_states recurrent.inputs recurrent.parameters recv.X rnn_memory_helper_grad.Out "
    "rnn_memory_helper_grad.Out@GRAD rnn_memory_helper_grad.X select_input.X select_output.X send.X "
    "send_barrier.X shuffle_batch.Seed sum.X while.X "
)

# slots of one variable, of which ops here take any number
SINGLE = words("c_sync_comm_stream.X c_sync_comm_stream.Out ")

# slots of any number of variables, of which ops here take one
MANY = words("create_py_reader.Out ")
