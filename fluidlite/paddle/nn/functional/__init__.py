"""`paddle.nn.functional`: layers without parameters, as functions"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.nn.functional"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HOME}.activation": "celu elu elu_ gelu glu gumbel_softmax hardshrink hardsigmoid hardswish "
        "hardtanh hardtanh_ leaky_relu leaky_relu_ log_sigmoid log_softmax maxout mish prelu relu relu6 "
        "relu_ rrelu selu sigmoid silu softmax softmax_ softplus softshrink softsign swish tanhshrink "
        "thresholded_relu thresholded_relu_",
        f"{_HOME}.attention": "scaled_dot_product_attention",
        f"{_HOME}.common": "alpha_dropout bilinear cosine_similarity dropout dropout2d "
        "dropout3d embedding interpolate label_smooth linear one_hot sequence_mask unfold upsample",
        f"{_HOME}.conv": "conv1d conv1d_transpose conv2d conv2d_transpose conv3d conv3d_transpose",
        f"{_HOME}.loss": "binary_cross_entropy binary_cross_entropy_with_logits class_center_sample "
        "cross_entropy ctc_loss "
        "dice_loss hsigmoid_loss kl_div l1_loss log_loss margin_ranking_loss mse_loss nll_loss npair_loss "
        "rnnt_loss sigmoid_focal_loss smooth_l1_loss softmax_with_cross_entropy square_error_cost",
        f"{_HOME}.margins": "cosine_embedding_loss gaussian_nll_loss hinge_embedding_loss "
        "margin_cross_entropy "
        "multi_label_soft_margin_loss multi_margin_loss pairwise_distance poisson_nll_loss soft_margin_loss "
        "triplet_margin_loss triplet_margin_with_distance_loss",
        f"{_HOME}.norm": "batch_norm instance_norm layer_norm local_response_norm normalize",
        f"{_HOME}.padding": "pad zeropad2d",
        f"{_HOME}.pooling": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d "
        "max_pool3d max_unpool1d max_unpool2d max_unpool3d",
        f"{_HOME}.vision": "affine_grid channel_shuffle diag_embed fold gather_tree grid_sample "
        "pixel_shuffle pixel_unshuffle temporal_shift",
        "fluidlite.paddle.tensor.math": "tanh tanh_",
    },
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
