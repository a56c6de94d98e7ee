# written by tests/house/stubs.py
"""The 2.x door: write `import fluidlite.paddle as paddle` where a static-graph program said `import paddle`.

It builds the same ops as fluid's names do, those of PaddlePaddle 2.x where these differ: single numbers have
the shape [], `matmul` is the op matmul_v2. Programs are static from the start; imperative mode is refused."""

from fluidlite.base.dtypes import VarType as _VarType
from fluidlite.base.dtypes import VarType as _dtype
from fluidlite.base.flags import get_flags as get_flags
from fluidlite.base.flags import set_flags as set_flags
from fluidlite.base.place import CPUPlace as CPUPlace
from fluidlite.base.place import CUDAPinnedPlace as CUDAPinnedPlace
from fluidlite.base.place import CUDAPlace as CUDAPlace
from fluidlite.base.place import is_compiled_with_cuda as is_compiled_with_cuda
from fluidlite.paddle import amp as amp
from fluidlite.paddle import callbacks as callbacks
from fluidlite.paddle import compat as compat
from fluidlite.paddle import dataset as dataset
from fluidlite.paddle import device as device
from fluidlite.paddle import distributed as distributed
from fluidlite.paddle import framework as framework
from fluidlite.paddle import hapi as hapi
from fluidlite.paddle import io as io
from fluidlite.paddle import metric as metric
from fluidlite.paddle import nn as nn
from fluidlite.paddle import optimizer as optimizer
from fluidlite.paddle import reader as reader
from fluidlite.paddle import regularizer as regularizer
from fluidlite.paddle import static as static
from fluidlite.paddle import tensor as tensor
from fluidlite.paddle import utils as utils
from fluidlite.paddle import version as version
from fluidlite.paddle import vision as vision
from fluidlite.paddle.attributes import ParamAttr as ParamAttr
from fluidlite.paddle.device import XPUPlace as XPUPlace
from fluidlite.paddle.device import get_cuda_rng_state as get_cuda_rng_state
from fluidlite.paddle.device import get_cudnn_version as get_cudnn_version
from fluidlite.paddle.device import get_device as get_device
from fluidlite.paddle.device import is_compiled_with_xpu as is_compiled_with_xpu
from fluidlite.paddle.device import set_cuda_rng_state as set_cuda_rng_state
from fluidlite.paddle.device import set_device as set_device
from fluidlite.paddle.framework import DataParallel as DataParallel
from fluidlite.paddle.framework import disable_static as disable_static
from fluidlite.paddle.framework import enable_static as enable_static
from fluidlite.paddle.framework import get_default_dtype as get_default_dtype
from fluidlite.paddle.framework import grad as grad
from fluidlite.paddle.framework import in_dynamic_mode as in_dynamic_mode
from fluidlite.paddle.framework import load as load
from fluidlite.paddle.framework import no_grad as no_grad
from fluidlite.paddle.framework import save as save
from fluidlite.paddle.framework import seed as seed
from fluidlite.paddle.framework import set_default_dtype as set_default_dtype
from fluidlite.paddle.hapi.count import flops as flops
from fluidlite.paddle.hapi.model import Model as Model
from fluidlite.paddle.hapi.model_summary import summary as summary
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
from fluidlite.paddle.tensor.creation import meshgrid as meshgrid
from fluidlite.paddle.tensor.creation import ones as ones
from fluidlite.paddle.tensor.creation import ones_like as ones_like
from fluidlite.paddle.tensor.creation import rank as rank
from fluidlite.paddle.tensor.creation import shape as shape
from fluidlite.paddle.tensor.creation import to_tensor as to_tensor
from fluidlite.paddle.tensor.creation import tril as tril
from fluidlite.paddle.tensor.creation import triu as triu
from fluidlite.paddle.tensor.creation import zeros as zeros
from fluidlite.paddle.tensor.creation import zeros_like as zeros_like
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
from fluidlite.paddle.tensor.linalg import t as t
from fluidlite.paddle.tensor.linalg import trace as trace
from fluidlite.paddle.tensor.logic import allclose as allclose
from fluidlite.paddle.tensor.logic import equal as equal
from fluidlite.paddle.tensor.logic import equal_all as equal_all
from fluidlite.paddle.tensor.logic import greater_equal as greater_equal
from fluidlite.paddle.tensor.logic import greater_than as greater_than
from fluidlite.paddle.tensor.logic import is_empty as is_empty
from fluidlite.paddle.tensor.logic import is_tensor as is_tensor
from fluidlite.paddle.tensor.logic import isclose as isclose
from fluidlite.paddle.tensor.logic import isfinite as isfinite
from fluidlite.paddle.tensor.logic import isinf as isinf
from fluidlite.paddle.tensor.logic import isnan as isnan
from fluidlite.paddle.tensor.logic import less_equal as less_equal
from fluidlite.paddle.tensor.logic import less_than as less_than
from fluidlite.paddle.tensor.logic import logical_and as logical_and
from fluidlite.paddle.tensor.logic import logical_not as logical_not
from fluidlite.paddle.tensor.logic import logical_or as logical_or
from fluidlite.paddle.tensor.logic import logical_xor as logical_xor
from fluidlite.paddle.tensor.logic import not_equal as not_equal
from fluidlite.paddle.tensor.manipulation import broadcast_tensors as broadcast_tensors
from fluidlite.paddle.tensor.manipulation import chunk as chunk
from fluidlite.paddle.tensor.manipulation import concat as concat
from fluidlite.paddle.tensor.manipulation import expand as _broadcast_to
from fluidlite.paddle.tensor.manipulation import expand as expand
from fluidlite.paddle.tensor.manipulation import expand_as as expand_as
from fluidlite.paddle.tensor.manipulation import flatten as flatten
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
from fluidlite.paddle.tensor.manipulation import transpose as transpose
from fluidlite.paddle.tensor.manipulation import unbind as unbind
from fluidlite.paddle.tensor.manipulation import unique as unique
from fluidlite.paddle.tensor.manipulation import unsqueeze as _unsqueeze_
from fluidlite.paddle.tensor.manipulation import unsqueeze as unsqueeze
from fluidlite.paddle.tensor.manipulation import unstack as unstack
from fluidlite.paddle.tensor.math import abs as abs
from fluidlite.paddle.tensor.math import acos as acos
from fluidlite.paddle.tensor.math import add as add
from fluidlite.paddle.tensor.math import add_n as add_n
from fluidlite.paddle.tensor.math import asin as asin
from fluidlite.paddle.tensor.math import atan as atan
from fluidlite.paddle.tensor.math import cast as cast
from fluidlite.paddle.tensor.math import ceil as ceil
from fluidlite.paddle.tensor.math import clip as clip
from fluidlite.paddle.tensor.math import conj as conj
from fluidlite.paddle.tensor.math import cos as cos
from fluidlite.paddle.tensor.math import cosh as cosh
from fluidlite.paddle.tensor.math import cumsum as cumsum
from fluidlite.paddle.tensor.math import divide as divide
from fluidlite.paddle.tensor.math import erf as erf
from fluidlite.paddle.tensor.math import exp as exp
from fluidlite.paddle.tensor.math import expm1 as expm1
from fluidlite.paddle.tensor.math import floor as floor
from fluidlite.paddle.tensor.math import floor_divide as floor_divide
from fluidlite.paddle.tensor.math import imag as imag
from fluidlite.paddle.tensor.math import increment as increment
from fluidlite.paddle.tensor.math import kron as kron
from fluidlite.paddle.tensor.math import log as log
from fluidlite.paddle.tensor.math import log10 as log10
from fluidlite.paddle.tensor.math import log1p as log1p
from fluidlite.paddle.tensor.math import log2 as log2
from fluidlite.paddle.tensor.math import maximum as maximum
from fluidlite.paddle.tensor.math import minimum as minimum
from fluidlite.paddle.tensor.math import mod as mod
from fluidlite.paddle.tensor.math import multiplex as multiplex
from fluidlite.paddle.tensor.math import multiply as multiply
from fluidlite.paddle.tensor.math import pow as pow
from fluidlite.paddle.tensor.math import real as real
from fluidlite.paddle.tensor.math import reciprocal as reciprocal
from fluidlite.paddle.tensor.math import round as round
from fluidlite.paddle.tensor.math import rsqrt as rsqrt
from fluidlite.paddle.tensor.math import scale as scale
from fluidlite.paddle.tensor.math import sign as sign
from fluidlite.paddle.tensor.math import sin as sin
from fluidlite.paddle.tensor.math import sinh as sinh
from fluidlite.paddle.tensor.math import sqrt as sqrt
from fluidlite.paddle.tensor.math import square as square
from fluidlite.paddle.tensor.math import stanh as stanh
from fluidlite.paddle.tensor.math import subtract as subtract
from fluidlite.paddle.tensor.math import tan as tan
from fluidlite.paddle.tensor.math import tanh as _tanh_
from fluidlite.paddle.tensor.math import tanh as tanh
from fluidlite.paddle.tensor.random import bernoulli as bernoulli
from fluidlite.paddle.tensor.random import multinomial as multinomial
from fluidlite.paddle.tensor.random import normal as normal
from fluidlite.paddle.tensor.random import rand as rand
from fluidlite.paddle.tensor.random import randint as randint
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
from fluidlite.paddle.tensor.search import argmax as argmax
from fluidlite.paddle.tensor.search import argmin as argmin
from fluidlite.paddle.tensor.search import argsort as argsort
from fluidlite.paddle.tensor.search import index_sample as index_sample
from fluidlite.paddle.tensor.search import index_select as index_select
from fluidlite.paddle.tensor.search import masked_select as masked_select
from fluidlite.paddle.tensor.search import nonzero as nonzero
from fluidlite.paddle.tensor.search import sort as sort
from fluidlite.paddle.tensor.search import topk as topk
from fluidlite.paddle.tensor.search import where as where
from fluidlite.paddle.variable import Tensor as Tensor
from fluidlite.reading.decorators import batch as batch

__version__: str
bfloat16: _VarType
bool: _VarType
complex128: _VarType
complex64: _VarType
float16: _VarType
float32: _VarType
float64: _VarType
int16: _VarType
int32: _VarType
int64: _VarType
int8: _VarType
uint8: _VarType
broadcast_to = _broadcast_to
dtype = _dtype
reshape_ = _reshape_
scatter_ = _scatter_
squeeze_ = _squeeze_
tanh_ = _tanh_
unsqueeze_ = _unsqueeze_
