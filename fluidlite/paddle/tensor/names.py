"""The functions of `paddle.tensor`, and the modules that have them; `paddle` has them all, too."""

from __future__ import annotations

__all__ = ["FUNCTIONS", "METHODS"]

_HOMES = {
    "fluidlite.paddle.tensor.contraction": "einsum",
    "fluidlite.paddle.tensor.complexes": "as_complex as_real complex polar",
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
        "broadcast_tensors broadcast_to chunk concat crop expand expand_as flatten flip gather "
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
        "erfinv floor_mod fmax fmin frac frexp gcd heaviside hypot i0 i0e i1 i1e lcm ldexp lerp lgamma "
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
}

_IN_PLACE = """
abs acos acosh add addmm asin asinh atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor cast ceil
clip cos cosh cumprod cumsum digamma divide equal erf erfinv exp expm1 flatten floor floor_divide floor_mod
frac gcd greater_equal greater_than hypot i0 index_add index_fill index_put lcm ldexp lerp less_equal
less_than lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor logit masked_fill mod
multigammaln multiply nan_to_num neg not_equal polygamma pow put_along_axis reciprocal remainder renorm
reshape round rsqrt scale scatter sigmoid sin sinh sqrt square squeeze subtract t tan tanh transpose tril
triu trunc unsqueeze where
"""
"""Functions that 2.x has a second time, to write over their first operand: programs have no other way than to
make a new variable, and 2.6.2's do the same.
"""

_NO_METHODS = """
arange assign bernoulli complex crop einsum empty empty_like eye full full_like linspace logspace meshgrid
normal ones ones_like poisson rand randint randint_like randn randperm searchsorted standard_normal to_tensor
tril_indices triu_indices uniform zeros zeros_like
"""
"""Functions that make tensors, mostly: Variables do not have them as methods."""

_METHODS_ELSEWHERE = {
    "fluidlite.paddle.linalg": (
        "cholesky_solve cond corrcoef cov eig eigvals eigvalsh householder_product lstsq lu lu_unpack "
        "matrix_power multi_dot pca_lowrank pinv qr solve"
    ),
    "fluidlite.paddle.nn.functional.activation": "sigmoid",
    "fluidlite.paddle.signal": "istft stft",
    "fluidlite.paddle.tensor.random": "exponential_",
    "fluidlite.paddle.methods": "append get_value item place register_hook",
    "fluidlite.paddle.imperative": (
        "as_strided cauchy_ fill_ fill_diagonal_ fill_diagonal_tensor_ geometric_ indices normal_ pop "
        "to_dense top_p_sampling unfold uniform_ values view view_as zero_"
    ),
}


def _with_seconds(names: str) -> str:
    """`names`, and `name_` for those that have a second one."""
    pairs = [name.split("=") for name in names.split()]
    present = [new for new, *_ in pairs]
    twice = [(new, old) for new, *old in pairs if new in _IN_PLACE.split() and f"{new}_" not in present]
    return " ".join([names, *(f"{new}_={old[0] if old else new}" for new, old in twice)])


FUNCTIONS = {module: _with_seconds(names) for module, names in _HOMES.items()}


def _methods() -> dict[str, tuple[str, str]]:
    """The functions that Variables have as methods: the name of each, its module and its name there."""
    homes = [
        *FUNCTIONS.items(),
        *((home, _with_seconds(names)) for home, names in _METHODS_ELSEWHERE.items()),
    ]
    found = {}
    for home, names in homes:
        for pair in names.split():
            new, _, old = pair.partition("=")
            found[new] = (home, old or new)
    return {name: place for name, place in found.items() if name not in _NO_METHODS.split()}


METHODS = _methods()
"""Method of a Variable -> the module of its function, and the function's name there"""
