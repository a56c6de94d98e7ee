# written by tests/house/stubs.py
"""`paddle.tensor`: functions of tensors, each an op or a few"""

from fluidlite.layers.control_flow import array_length as array_length
from fluidlite.layers.control_flow import array_read as array_read
from fluidlite.paddle import fmax as fmax
from fluidlite.paddle import fmin as fmin
from fluidlite.paddle import heaviside as heaviside
from fluidlite.paddle.build import cast as _cast_
from fluidlite.paddle.build import cast as cast
from fluidlite.paddle.nn.functional.vision import diag_embed as diag_embed
from fluidlite.paddle.tensor import array as array
from fluidlite.paddle.tensor import creation as creation
from fluidlite.paddle.tensor import linalg as linalg
from fluidlite.paddle.tensor import logic as logic
from fluidlite.paddle.tensor import manipulation as manipulation
from fluidlite.paddle.tensor import math as math
from fluidlite.paddle.tensor import random as random
from fluidlite.paddle.tensor import search as search
from fluidlite.paddle.tensor.arranging import atleast_1d as atleast_1d
from fluidlite.paddle.tensor.arranging import atleast_2d as atleast_2d
from fluidlite.paddle.tensor.arranging import atleast_3d as atleast_3d
from fluidlite.paddle.tensor.arranging import broadcast_shape as broadcast_shape
from fluidlite.paddle.tensor.arranging import cdist as cdist
from fluidlite.paddle.tensor.arranging import clone as clone
from fluidlite.paddle.tensor.arranging import cumulative_trapezoid as cumulative_trapezoid
from fluidlite.paddle.tensor.arranging import diagflat as diagflat
from fluidlite.paddle.tensor.arranging import diagonal as diagonal
from fluidlite.paddle.tensor.arranging import diff as diff
from fluidlite.paddle.tensor.arranging import index_add as _index_add_
from fluidlite.paddle.tensor.arranging import index_add as index_add
from fluidlite.paddle.tensor.arranging import index_fill as _index_fill_
from fluidlite.paddle.tensor.arranging import index_fill as index_fill
from fluidlite.paddle.tensor.arranging import index_put as _index_put_
from fluidlite.paddle.tensor.arranging import index_put as index_put
from fluidlite.paddle.tensor.arranging import inner as inner
from fluidlite.paddle.tensor.arranging import is_complex as is_complex
from fluidlite.paddle.tensor.arranging import is_floating_point as is_floating_point
from fluidlite.paddle.tensor.arranging import is_integer as is_integer
from fluidlite.paddle.tensor.arranging import masked_fill as _masked_fill_
from fluidlite.paddle.tensor.arranging import masked_fill as masked_fill
from fluidlite.paddle.tensor.arranging import moveaxis as moveaxis
from fluidlite.paddle.tensor.arranging import outer as outer
from fluidlite.paddle.tensor.arranging import put_along_axis as _put_along_axis_
from fluidlite.paddle.tensor.arranging import put_along_axis as put_along_axis
from fluidlite.paddle.tensor.arranging import renorm as _renorm_
from fluidlite.paddle.tensor.arranging import renorm as renorm
from fluidlite.paddle.tensor.arranging import repeat_interleave as repeat_interleave
from fluidlite.paddle.tensor.arranging import rot90 as rot90
from fluidlite.paddle.tensor.arranging import take as take
from fluidlite.paddle.tensor.arranging import take_along_axis as take_along_axis
from fluidlite.paddle.tensor.arranging import tensordot as tensordot
from fluidlite.paddle.tensor.arranging import trapezoid as trapezoid
from fluidlite.paddle.tensor.arranging import tril_indices as tril_indices
from fluidlite.paddle.tensor.arranging import triu_indices as triu_indices
from fluidlite.paddle.tensor.arranging import unflatten as unflatten
from fluidlite.paddle.tensor.arranging import vsplit as vsplit
from fluidlite.paddle.tensor.array import array_write as array_write
from fluidlite.paddle.tensor.array import create_array as create_array
from fluidlite.paddle.tensor.complexes import as_complex as as_complex
from fluidlite.paddle.tensor.complexes import as_real as as_real
from fluidlite.paddle.tensor.complexes import complex as complex
from fluidlite.paddle.tensor.complexes import polar as polar
from fluidlite.paddle.tensor.contraction import einsum as einsum
from fluidlite.paddle.tensor.creation import arange as arange
from fluidlite.paddle.tensor.creation import assign as assign
from fluidlite.paddle.tensor.creation import diag as diag
from fluidlite.paddle.tensor.creation import empty as empty
from fluidlite.paddle.tensor.creation import empty_like as empty_like
from fluidlite.paddle.tensor.creation import eye as eye
from fluidlite.paddle.tensor.creation import full as full
from fluidlite.paddle.tensor.creation import full_like as full_like
from fluidlite.paddle.tensor.creation import linspace as linspace
from fluidlite.paddle.tensor.creation import logspace as logspace
from fluidlite.paddle.tensor.creation import meshgrid as meshgrid
from fluidlite.paddle.tensor.creation import ones as ones
from fluidlite.paddle.tensor.creation import ones_like as ones_like
from fluidlite.paddle.tensor.creation import rank as rank
from fluidlite.paddle.tensor.creation import shape as shape
from fluidlite.paddle.tensor.creation import to_tensor as to_tensor
from fluidlite.paddle.tensor.creation import tril as _tril_
from fluidlite.paddle.tensor.creation import tril as tril
from fluidlite.paddle.tensor.creation import triu as _triu_
from fluidlite.paddle.tensor.creation import triu as triu
from fluidlite.paddle.tensor.creation import zeros as zeros
from fluidlite.paddle.tensor.creation import zeros_like as zeros_like
from fluidlite.paddle.tensor.linalg import addmm as _addmm_
from fluidlite.paddle.tensor.linalg import addmm as addmm
from fluidlite.paddle.tensor.linalg import bmm as bmm
from fluidlite.paddle.tensor.linalg import cholesky as cholesky
from fluidlite.paddle.tensor.linalg import cross as cross
from fluidlite.paddle.tensor.linalg import dist as dist
from fluidlite.paddle.tensor.linalg import dot as dot
from fluidlite.paddle.tensor.linalg import histogram as histogram
from fluidlite.paddle.tensor.linalg import inverse as inverse
from fluidlite.paddle.tensor.linalg import matmul as matmul
from fluidlite.paddle.tensor.linalg import mm as mm
from fluidlite.paddle.tensor.linalg import mv as mv
from fluidlite.paddle.tensor.linalg import norm as norm
from fluidlite.paddle.tensor.linalg import t as _t_
from fluidlite.paddle.tensor.linalg import t as t
from fluidlite.paddle.tensor.linalg import trace as trace
from fluidlite.paddle.tensor.logic import allclose as allclose
from fluidlite.paddle.tensor.logic import equal as _equal_
from fluidlite.paddle.tensor.logic import equal as equal
from fluidlite.paddle.tensor.logic import equal_all as equal_all
from fluidlite.paddle.tensor.logic import greater_equal as _greater_equal_
from fluidlite.paddle.tensor.logic import greater_equal as greater_equal
from fluidlite.paddle.tensor.logic import greater_than as _greater_than_
from fluidlite.paddle.tensor.logic import greater_than as greater_than
from fluidlite.paddle.tensor.logic import is_empty as is_empty
from fluidlite.paddle.tensor.logic import is_tensor as is_tensor
from fluidlite.paddle.tensor.logic import isclose as isclose
from fluidlite.paddle.tensor.logic import isfinite as isfinite
from fluidlite.paddle.tensor.logic import isinf as isinf
from fluidlite.paddle.tensor.logic import isnan as isnan
from fluidlite.paddle.tensor.logic import less_equal as _less_equal_
from fluidlite.paddle.tensor.logic import less_equal as less_equal
from fluidlite.paddle.tensor.logic import less_than as _less_than_
from fluidlite.paddle.tensor.logic import less_than as less_than
from fluidlite.paddle.tensor.logic import logical_and as _logical_and_
from fluidlite.paddle.tensor.logic import logical_and as logical_and
from fluidlite.paddle.tensor.logic import logical_not as _logical_not_
from fluidlite.paddle.tensor.logic import logical_not as logical_not
from fluidlite.paddle.tensor.logic import logical_or as _logical_or_
from fluidlite.paddle.tensor.logic import logical_or as logical_or
from fluidlite.paddle.tensor.logic import logical_xor as _logical_xor_
from fluidlite.paddle.tensor.logic import logical_xor as logical_xor
from fluidlite.paddle.tensor.logic import not_equal as _not_equal_
from fluidlite.paddle.tensor.logic import not_equal as not_equal
from fluidlite.paddle.tensor.manipulation import broadcast_tensors as broadcast_tensors
from fluidlite.paddle.tensor.manipulation import broadcast_to as broadcast_to
from fluidlite.paddle.tensor.manipulation import chunk as chunk
from fluidlite.paddle.tensor.manipulation import concat as concat
from fluidlite.paddle.tensor.manipulation import crop as crop
from fluidlite.paddle.tensor.manipulation import expand as expand
from fluidlite.paddle.tensor.manipulation import expand_as as expand_as
from fluidlite.paddle.tensor.manipulation import flatten as _flatten_
from fluidlite.paddle.tensor.manipulation import flatten as flatten
from fluidlite.paddle.tensor.manipulation import flip as _reverse
from fluidlite.paddle.tensor.manipulation import flip as flip
from fluidlite.paddle.tensor.manipulation import gather as gather
from fluidlite.paddle.tensor.manipulation import gather_nd as gather_nd
from fluidlite.paddle.tensor.manipulation import reshape as _reshape_
from fluidlite.paddle.tensor.manipulation import reshape as reshape
from fluidlite.paddle.tensor.manipulation import roll as roll
from fluidlite.paddle.tensor.manipulation import scatter as _scatter_
from fluidlite.paddle.tensor.manipulation import scatter as scatter
from fluidlite.paddle.tensor.manipulation import scatter_nd as scatter_nd
from fluidlite.paddle.tensor.manipulation import scatter_nd_add as scatter_nd_add
from fluidlite.paddle.tensor.manipulation import shard_index as shard_index
from fluidlite.paddle.tensor.manipulation import slice as slice
from fluidlite.paddle.tensor.manipulation import split as split
from fluidlite.paddle.tensor.manipulation import squeeze as _squeeze_
from fluidlite.paddle.tensor.manipulation import squeeze as squeeze
from fluidlite.paddle.tensor.manipulation import stack as stack
from fluidlite.paddle.tensor.manipulation import strided_slice as strided_slice
from fluidlite.paddle.tensor.manipulation import tile as tile
from fluidlite.paddle.tensor.manipulation import transpose as _transpose_
from fluidlite.paddle.tensor.manipulation import transpose as transpose
from fluidlite.paddle.tensor.manipulation import unbind as unbind
from fluidlite.paddle.tensor.manipulation import unique as unique
from fluidlite.paddle.tensor.manipulation import unsqueeze as _unsqueeze_
from fluidlite.paddle.tensor.manipulation import unsqueeze as unsqueeze
from fluidlite.paddle.tensor.manipulation import unstack as unstack
from fluidlite.paddle.tensor.math import abs as _abs_
from fluidlite.paddle.tensor.math import abs as abs
from fluidlite.paddle.tensor.math import acos as _acos_
from fluidlite.paddle.tensor.math import acos as acos
from fluidlite.paddle.tensor.math import add as _add_
from fluidlite.paddle.tensor.math import add as add
from fluidlite.paddle.tensor.math import add_n as add_n
from fluidlite.paddle.tensor.math import asin as _asin_
from fluidlite.paddle.tensor.math import asin as asin
from fluidlite.paddle.tensor.math import atan as _atan_
from fluidlite.paddle.tensor.math import atan as atan
from fluidlite.paddle.tensor.math import ceil as _ceil_
from fluidlite.paddle.tensor.math import ceil as ceil
from fluidlite.paddle.tensor.math import clip as _clip_
from fluidlite.paddle.tensor.math import clip as clip
from fluidlite.paddle.tensor.math import conj as conj
from fluidlite.paddle.tensor.math import cos as _cos_
from fluidlite.paddle.tensor.math import cos as cos
from fluidlite.paddle.tensor.math import cosh as _cosh_
from fluidlite.paddle.tensor.math import cosh as cosh
from fluidlite.paddle.tensor.math import cumsum as _cumsum_
from fluidlite.paddle.tensor.math import cumsum as cumsum
from fluidlite.paddle.tensor.math import divide as _divide_
from fluidlite.paddle.tensor.math import divide as divide
from fluidlite.paddle.tensor.math import erf as _erf_
from fluidlite.paddle.tensor.math import erf as erf
from fluidlite.paddle.tensor.math import exp as _exp_
from fluidlite.paddle.tensor.math import exp as exp
from fluidlite.paddle.tensor.math import expm1 as _expm1_
from fluidlite.paddle.tensor.math import expm1 as expm1
from fluidlite.paddle.tensor.math import floor as _floor_
from fluidlite.paddle.tensor.math import floor as floor
from fluidlite.paddle.tensor.math import floor_divide as _floor_divide_
from fluidlite.paddle.tensor.math import floor_divide as floor_divide
from fluidlite.paddle.tensor.math import imag as imag
from fluidlite.paddle.tensor.math import increment as increment
from fluidlite.paddle.tensor.math import kron as kron
from fluidlite.paddle.tensor.math import log as _log_
from fluidlite.paddle.tensor.math import log as log
from fluidlite.paddle.tensor.math import log10 as _log10_
from fluidlite.paddle.tensor.math import log10 as log10
from fluidlite.paddle.tensor.math import log1p as _log1p_
from fluidlite.paddle.tensor.math import log1p as log1p
from fluidlite.paddle.tensor.math import log2 as _log2_
from fluidlite.paddle.tensor.math import log2 as log2
from fluidlite.paddle.tensor.math import maximum as maximum
from fluidlite.paddle.tensor.math import minimum as minimum
from fluidlite.paddle.tensor.math import mod as _floor_mod
from fluidlite.paddle.tensor.math import mod as _floor_mod_
from fluidlite.paddle.tensor.math import mod as _mod_
from fluidlite.paddle.tensor.math import mod as _remainder
from fluidlite.paddle.tensor.math import mod as _remainder_
from fluidlite.paddle.tensor.math import mod as mod
from fluidlite.paddle.tensor.math import multiplex as multiplex
from fluidlite.paddle.tensor.math import multiply as _multiply_
from fluidlite.paddle.tensor.math import multiply as multiply
from fluidlite.paddle.tensor.math import pow as _pow_
from fluidlite.paddle.tensor.math import pow as pow
from fluidlite.paddle.tensor.math import real as real
from fluidlite.paddle.tensor.math import reciprocal as _reciprocal_
from fluidlite.paddle.tensor.math import reciprocal as reciprocal
from fluidlite.paddle.tensor.math import round as _round_
from fluidlite.paddle.tensor.math import round as round
from fluidlite.paddle.tensor.math import rsqrt as _rsqrt_
from fluidlite.paddle.tensor.math import rsqrt as rsqrt
from fluidlite.paddle.tensor.math import scale as _scale_
from fluidlite.paddle.tensor.math import scale as scale
from fluidlite.paddle.tensor.math import sign as sign
from fluidlite.paddle.tensor.math import sin as _sin_
from fluidlite.paddle.tensor.math import sin as sin
from fluidlite.paddle.tensor.math import sinh as _sinh_
from fluidlite.paddle.tensor.math import sinh as sinh
from fluidlite.paddle.tensor.math import sqrt as _sqrt_
from fluidlite.paddle.tensor.math import sqrt as sqrt
from fluidlite.paddle.tensor.math import square as _square_
from fluidlite.paddle.tensor.math import square as square
from fluidlite.paddle.tensor.math import stanh as stanh
from fluidlite.paddle.tensor.math import subtract as _subtract_
from fluidlite.paddle.tensor.math import subtract as subtract
from fluidlite.paddle.tensor.math import tan as _tan_
from fluidlite.paddle.tensor.math import tan as tan
from fluidlite.paddle.tensor.math import tanh as _tanh_
from fluidlite.paddle.tensor.math import tanh as tanh
from fluidlite.paddle.tensor.random import bernoulli as bernoulli
from fluidlite.paddle.tensor.random import multinomial as multinomial
from fluidlite.paddle.tensor.random import normal as normal
from fluidlite.paddle.tensor.random import poisson as poisson
from fluidlite.paddle.tensor.random import rand as rand
from fluidlite.paddle.tensor.random import randint as randint
from fluidlite.paddle.tensor.random import randint_like as randint_like
from fluidlite.paddle.tensor.random import randn as _standard_normal
from fluidlite.paddle.tensor.random import randn as randn
from fluidlite.paddle.tensor.random import randperm as randperm
from fluidlite.paddle.tensor.random import uniform as uniform
from fluidlite.paddle.tensor.reduction import all as all
from fluidlite.paddle.tensor.reduction import any as any
from fluidlite.paddle.tensor.reduction import logsumexp as logsumexp
from fluidlite.paddle.tensor.reduction import max as max
from fluidlite.paddle.tensor.reduction import mean as mean
from fluidlite.paddle.tensor.reduction import median as median
from fluidlite.paddle.tensor.reduction import min as min
from fluidlite.paddle.tensor.reduction import numel as numel
from fluidlite.paddle.tensor.reduction import prod as prod
from fluidlite.paddle.tensor.reduction import std as std
from fluidlite.paddle.tensor.reduction import sum as sum
from fluidlite.paddle.tensor.reduction import var as var
from fluidlite.paddle.tensor.scattering import angle as angle
from fluidlite.paddle.tensor.scattering import combinations as combinations
from fluidlite.paddle.tensor.scattering import diagonal_scatter as diagonal_scatter
from fluidlite.paddle.tensor.scattering import select_scatter as select_scatter
from fluidlite.paddle.tensor.scattering import vander as vander
from fluidlite.paddle.tensor.search import argmax as argmax
from fluidlite.paddle.tensor.search import argmin as argmin
from fluidlite.paddle.tensor.search import argsort as argsort
from fluidlite.paddle.tensor.search import index_sample as index_sample
from fluidlite.paddle.tensor.search import index_select as index_select
from fluidlite.paddle.tensor.search import masked_select as masked_select
from fluidlite.paddle.tensor.search import nonzero as nonzero
from fluidlite.paddle.tensor.search import sort as sort
from fluidlite.paddle.tensor.search import topk as topk
from fluidlite.paddle.tensor.search import where as _where_
from fluidlite.paddle.tensor.search import where as where
from fluidlite.paddle.tensor.special import acosh as _acosh_
from fluidlite.paddle.tensor.special import acosh as acosh
from fluidlite.paddle.tensor.special import asinh as _asinh_
from fluidlite.paddle.tensor.special import asinh as asinh
from fluidlite.paddle.tensor.special import atan2 as atan2
from fluidlite.paddle.tensor.special import atanh as _atanh_
from fluidlite.paddle.tensor.special import atanh as atanh
from fluidlite.paddle.tensor.special import bitwise_and as _bitwise_and_
from fluidlite.paddle.tensor.special import bitwise_and as bitwise_and
from fluidlite.paddle.tensor.special import bitwise_not as _bitwise_not_
from fluidlite.paddle.tensor.special import bitwise_not as bitwise_not
from fluidlite.paddle.tensor.special import bitwise_or as _bitwise_or_
from fluidlite.paddle.tensor.special import bitwise_or as bitwise_or
from fluidlite.paddle.tensor.special import bitwise_xor as _bitwise_xor_
from fluidlite.paddle.tensor.special import bitwise_xor as bitwise_xor
from fluidlite.paddle.tensor.special import deg2rad as deg2rad
from fluidlite.paddle.tensor.special import digamma as _digamma_
from fluidlite.paddle.tensor.special import digamma as digamma
from fluidlite.paddle.tensor.special import erfinv as _erfinv_
from fluidlite.paddle.tensor.special import erfinv as erfinv
from fluidlite.paddle.tensor.special import frac as _frac_
from fluidlite.paddle.tensor.special import frac as frac
from fluidlite.paddle.tensor.special import frexp as frexp
from fluidlite.paddle.tensor.special import gcd as _gcd_
from fluidlite.paddle.tensor.special import gcd as gcd
from fluidlite.paddle.tensor.special import hypot as _hypot_
from fluidlite.paddle.tensor.special import hypot as hypot
from fluidlite.paddle.tensor.special import i0 as _i0_
from fluidlite.paddle.tensor.special import i0 as i0
from fluidlite.paddle.tensor.special import i0e as i0e
from fluidlite.paddle.tensor.special import i1 as i1
from fluidlite.paddle.tensor.special import i1e as i1e
from fluidlite.paddle.tensor.special import lcm as _lcm_
from fluidlite.paddle.tensor.special import lcm as lcm
from fluidlite.paddle.tensor.special import ldexp as _ldexp_
from fluidlite.paddle.tensor.special import ldexp as ldexp
from fluidlite.paddle.tensor.special import lerp as _lerp_
from fluidlite.paddle.tensor.special import lerp as lerp
from fluidlite.paddle.tensor.special import lgamma as _lgamma_
from fluidlite.paddle.tensor.special import lgamma as lgamma
from fluidlite.paddle.tensor.special import logaddexp as logaddexp
from fluidlite.paddle.tensor.special import logit as _logit_
from fluidlite.paddle.tensor.special import logit as logit
from fluidlite.paddle.tensor.special import multigammaln as _multigammaln_
from fluidlite.paddle.tensor.special import multigammaln as multigammaln
from fluidlite.paddle.tensor.special import nan_to_num as _nan_to_num_
from fluidlite.paddle.tensor.special import nan_to_num as nan_to_num
from fluidlite.paddle.tensor.special import neg as _neg_
from fluidlite.paddle.tensor.special import neg as neg
from fluidlite.paddle.tensor.special import nextafter as nextafter
from fluidlite.paddle.tensor.special import polygamma as _polygamma_
from fluidlite.paddle.tensor.special import polygamma as polygamma
from fluidlite.paddle.tensor.special import rad2deg as rad2deg
from fluidlite.paddle.tensor.special import sgn as sgn
from fluidlite.paddle.tensor.special import trunc as _trunc_
from fluidlite.paddle.tensor.special import trunc as trunc
from fluidlite.paddle.tensor.statistics import amax as amax
from fluidlite.paddle.tensor.statistics import amin as amin
from fluidlite.paddle.tensor.statistics import bincount as bincount
from fluidlite.paddle.tensor.statistics import bucketize as bucketize
from fluidlite.paddle.tensor.statistics import count_nonzero as count_nonzero
from fluidlite.paddle.tensor.statistics import cummax as cummax
from fluidlite.paddle.tensor.statistics import cummin as cummin
from fluidlite.paddle.tensor.statistics import cumprod as _cumprod_
from fluidlite.paddle.tensor.statistics import cumprod as cumprod
from fluidlite.paddle.tensor.statistics import kthvalue as kthvalue
from fluidlite.paddle.tensor.statistics import logcumsumexp as logcumsumexp
from fluidlite.paddle.tensor.statistics import mode as mode
from fluidlite.paddle.tensor.statistics import nanmean as nanmean
from fluidlite.paddle.tensor.statistics import nanmedian as nanmedian
from fluidlite.paddle.tensor.statistics import nanquantile as nanquantile
from fluidlite.paddle.tensor.statistics import nansum as nansum
from fluidlite.paddle.tensor.statistics import quantile as quantile
from fluidlite.paddle.tensor.statistics import searchsorted as searchsorted
from fluidlite.paddle.tensor.statistics import unique_consecutive as unique_consecutive

abs_ = _abs_
acos_ = _acos_
acosh_ = _acosh_
add_ = _add_
addmm_ = _addmm_
asin_ = _asin_
asinh_ = _asinh_
atan_ = _atan_
atanh_ = _atanh_
bitwise_and_ = _bitwise_and_
bitwise_not_ = _bitwise_not_
bitwise_or_ = _bitwise_or_
bitwise_xor_ = _bitwise_xor_
cast_ = _cast_
ceil_ = _ceil_
clip_ = _clip_
cos_ = _cos_
cosh_ = _cosh_
cumprod_ = _cumprod_
cumsum_ = _cumsum_
digamma_ = _digamma_
divide_ = _divide_
equal_ = _equal_
erf_ = _erf_
erfinv_ = _erfinv_
exp_ = _exp_
expm1_ = _expm1_
flatten_ = _flatten_
floor_ = _floor_
floor_divide_ = _floor_divide_
floor_mod = _floor_mod
floor_mod_ = _floor_mod_
frac_ = _frac_
gcd_ = _gcd_
greater_equal_ = _greater_equal_
greater_than_ = _greater_than_
hypot_ = _hypot_
i0_ = _i0_
index_add_ = _index_add_
index_fill_ = _index_fill_
index_put_ = _index_put_
lcm_ = _lcm_
ldexp_ = _ldexp_
lerp_ = _lerp_
less_equal_ = _less_equal_
less_than_ = _less_than_
lgamma_ = _lgamma_
log10_ = _log10_
log1p_ = _log1p_
log2_ = _log2_
log_ = _log_
logical_and_ = _logical_and_
logical_not_ = _logical_not_
logical_or_ = _logical_or_
logical_xor_ = _logical_xor_
logit_ = _logit_
masked_fill_ = _masked_fill_
mod_ = _mod_
multigammaln_ = _multigammaln_
multiply_ = _multiply_
nan_to_num_ = _nan_to_num_
neg_ = _neg_
not_equal_ = _not_equal_
polygamma_ = _polygamma_
pow_ = _pow_
put_along_axis_ = _put_along_axis_
reciprocal_ = _reciprocal_
remainder = _remainder
remainder_ = _remainder_
renorm_ = _renorm_
reshape_ = _reshape_
reverse = _reverse
round_ = _round_
rsqrt_ = _rsqrt_
scale_ = _scale_
scatter_ = _scatter_
sin_ = _sin_
sinh_ = _sinh_
sqrt_ = _sqrt_
square_ = _square_
squeeze_ = _squeeze_
standard_normal = _standard_normal
subtract_ = _subtract_
t_ = _t_
tan_ = _tan_
tanh_ = _tanh_
transpose_ = _transpose_
tril_ = _tril_
triu_ = _triu_
trunc_ = _trunc_
unsqueeze_ = _unsqueeze_
where_ = _where_
