"""The functions of `paddle.tensor`, and the modules that have them; `paddle` has them all, too."""

from __future__ import annotations

__all__ = ["FUNCTIONS"]

FUNCTIONS = {
    "fluidlite.paddle.tensor.contraction": "einsum",
    "fluidlite.paddle.tensor.creation": (
        "arange assign diag empty empty_like eye full full_like linspace meshgrid ones ones_like "
        "rank shape to_tensor tril triu zeros zeros_like"
    ),
    "fluidlite.paddle.tensor.linalg": (
        "addmm bmm cholesky cross dist dot histogram inverse matmul mm mv norm t trace"
    ),
    "fluidlite.paddle.tensor.logic": (
        "allclose equal equal_all greater_equal greater_than is_empty is_tensor isclose isfinite isinf "
        "isnan less_equal less_than logical_and logical_not logical_or logical_xor not_equal"
    ),
    "fluidlite.paddle.tensor.manipulation": (
        "broadcast_tensors broadcast_to chunk concat expand expand_as flatten flip gather "
        "gather_nd reshape reshape_ roll scatter scatter_ scatter_nd scatter_nd_add shard_index "
        "slice split squeeze squeeze_ stack strided_slice tile transpose unbind unique unsqueeze "
        "unsqueeze_ unstack"
    ),
    "fluidlite.paddle.tensor.math": (
        "abs acos add add_n asin atan cast ceil clip conj cos cosh cumsum divide erf exp expm1 floor "
        "floor_divide imag increment kron log log10 log1p log2 maximum minimum mod multiplex "
        "multiply pow real reciprocal round rsqrt scale sign sin sinh sqrt square stanh subtract "
        "tan tanh tanh_"
    ),
    "fluidlite.paddle.tensor.random": ("bernoulli multinomial normal rand randint randn randperm uniform"),
    "fluidlite.paddle.tensor.reduction": ("all any logsumexp max mean median min numel prod std sum var"),
    "fluidlite.paddle.tensor.search": (
        "argmax argmin argsort index_sample index_select masked_select nonzero sort topk where"
    ),
}
