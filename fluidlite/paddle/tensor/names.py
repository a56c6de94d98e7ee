"""The functions of `paddle.tensor`, and the modules that have them; `paddle` has them all, too."""

from __future__ import annotations

__all__ = ["FUNCTIONS"]

_HOMES = {
    "fluidlite.paddle.tensor.contraction": "einsum",
    "fluidlite.paddle.tensor.creation": (
        "arange assign diag empty empty_like eye full full_like linspace logspace meshgrid ones ones_like "
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
    "fluidlite.paddle.tensor.random": (
        "bernoulli multinomial normal poisson rand randint randint_like randn randperm standard_normal "
        "uniform"
    ),
    "fluidlite.paddle.tensor.reduction": ("all any logsumexp max mean median min numel prod std sum var"),
    "fluidlite.paddle.tensor.search": (
        "argmax argmin argsort index_sample index_select masked_select nonzero sort topk where"
    ),
    "fluidlite.paddle.tensor.special": (
        "acosh asinh atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor deg2rad digamma "
        "erfinv floor_mod fmax fmin frac frexp heaviside hypot i0 i0e i1 i1e ldexp lerp lgamma "
        "logaddexp logit multigammaln nan_to_num neg nextafter polygamma rad2deg remainder sgn "
        "trunc"
    ),
    "fluidlite.paddle.tensor.statistics": (
        "amax amin bincount bucketize count_nonzero cummax cummin cumprod kthvalue logcumsumexp "
        "mode nanmean nanmedian nanquantile nansum quantile searchsorted unique_consecutive"
    ),
    "fluidlite.paddle.tensor.scattering": "angle combinations diagonal_scatter select_scatter vander",
    "fluidlite.paddle.tensor.arranging": (
        "atleast_1d atleast_2d atleast_3d broadcast_shape cdist clone cumulative_trapezoid diagflat "
        "diagonal diff index_add index_fill index_put inner is_complex is_floating_point is_integer "
        "masked_fill moveaxis outer put_along_axis renorm repeat_interleave reverse rot90 take "
        "take_along_axis tensordot trapezoid tril_indices triu_indices unflatten vsplit"
    ),
    "fluidlite.paddle.nn.functional.vision": "diag_embed",
    "fluidlite.layers.tensors.indexing": "crop=crop_tensor",
}

_IN_PLACE = """
abs acos acosh addmm asin asinh atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor cast cos
cosh cumprod cumsum digamma divide equal erf expm1 floor_divide floor_mod frac greater_equal
greater_than hypot i0 index_add index_fill index_put ldexp less_equal less_than lgamma log10 log1p
log2 log logical_and logical_not logical_or logical_xor logit masked_fill mod multigammaln multiply
nan_to_num neg not_equal polygamma pow remainder renorm sin sinh square t tan transpose tril triu
trunc where
"""
"""Functions that 2.x has a second time, to write over their first operand: programs have no other way than to
make a new variable, and 2.6.2's do the same.
"""


def _with_seconds(names: str) -> str:
    """`names`, and `name_` for those that have a second one."""
    twice = {name for name in _IN_PLACE.split() if name in names.split()}
    return " ".join([names, *(f"{name}_={name}" for name in sorted(twice))])


FUNCTIONS = {module: _with_seconds(names) for module, names in _HOMES.items()}
