"""Tensor functions and operators of PaddlePaddle 2.x: expressions over a few variables, and how to try one.

The same expressions are built and run under 2.6.2 (`record_2x_functions.py` writes what it found) and under
FluidLite. `paddle` is an argument everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# name -> declared shape, dtype, shape of what is fed, lowest and highest value
INPUTS: dict[str, Any] = {
    "x": ([2, 3], "float32", [2, 3], -1.0, 1.0),
    "y": ([2, 3], "float32", [2, 3], -1.0, 1.0),
    "p": ([2, 3], "float32", [2, 3], 0.2, 0.9),
    "m": ([3, 3], "float32", [3, 3], -1.0, 1.0),
    "s": ([3, 3], "float32", [3, 3], 0.0, 0.0),  # symmetric and positive definite
    "v": ([3], "float32", [3], -1.0, 1.0),
    "w": ([3], "float32", [3], -1.0, 1.0),
    "z": ([], "float32", [], 0.3, 0.9),
    "t": ([2, 3, 4], "float32", [2, 3, 4], -1.0, 1.0),
    "u": ([-1, 3], "float32", [2, 3], -1.0, 1.0),
    "d": ([2, 3], "float64", [2, 3], -1.0, 1.0),
    "i": ([2], "int64", [2], 0, 2),
    "i3": ([2, 1], "int64", [2, 1], 0, 2),
    "q": ([2, 1], "int32", [2, 1], 0, 2),
    "j": ([2, 3], "int64", [2, 3], 1, 7),
    "h": ([2, 3], "int32", [2, 3], 1, 7),
    "n": ([2, 3], "int64", [2, 3], 0, 3),
    "k": ([], "int64", [], 1, 2),
    "b": ([2, 3], "bool", [2, 3], 0, 2),
    "a": ([2, 3], "bool", [2, 3], 0, 2),
    "l": ([2, 3, 5], "float32", [2, 3, 5], -1.0, 1.0),
    "f": ([2, 3, 5, 6], "float32", [2, 3, 5, 6], -1.0, 1.0),
    "g": ([2, 2, 3, 4, 5], "float32", [2, 2, 3, 4, 5], -1.0, 1.0),
    "c": ([2, 2, 3, 2, 3], "float32", [2, 2, 3, 2, 3], -1.2, 1.2),  # places in volumes
    "r": ([2, 3, 4], "float32", [2, 3, 4], -1.0, 1.0),  # maps of volumes
    "e": ([0, 3], "float32", [0, 3], 0.0, 0.0),
    "o": ([1], "int64", [1], 3, 4),
}

ROWS = """
abs(x) | acos(x) | asin(x) | atan(x) | ceil(x) | cos(x) | cosh(x) | erf(x) | exp(x) | floor(x) | log(p)
log10(p) | log1p(p) | expm1(x) | log2(p) | reciprocal(p) | round(x) | rsqrt(p) | sign(x) | sin(x) | sinh(x)
sqrt(p) | square(x) | stanh(x) | stanh(x, 0.5, 1.5) | tan(x) | tanh(x) | tanh_(x) | abs(z) | tanh(z)
exp(d) | conj(x) | add(x, y) | add(x, v) | add(x, z) | subtract(x, y) | subtract(v, x) | multiply(x, v)
multiply(x, z) | divide(x, p) | divide(j, j) | floor_divide(j, j) | floor_divide(x, y) | mod(j, j)
mod(n - 2, j - 8) | mod(h - 4, 2 - h * 3) | floor_divide(n - 2, j - 8) | floor_divide(h - 4, 2 - h * 3)
sum(z, axis=-1) | max(z, axis=-1, keepdim=True) | addmm(v, m, m) | squeeze(t, 1) | transpose(t, [-1, 0, 1])
real(cast(x, "complex64")) | imag(cast(x, "complex64")) | sin(j) | sqrt(h) | erf(j) | tanh(j)
mod(x, p) | pow(x, 2) | pow(p, 1.5) | pow(p, y) | pow(j, 2) | maximum(x, v) | minimum(x, y)
maximum(j, j) | add_n([x, y]) | add_n(x) | add_n([x]) | addmm(m, m, s)
addmm(m, m, s, beta=0.5, alpha=2.0) | bmm(t, paddle.transpose(t, [0, 2, 1])) | mm(x, m) | mv(x, v)
einsum("ij,jk->ik", x, m) | einsum("ij,jk", x, m) | einsum("i,i->", v, w) | einsum("i,j->ij", v, w)
einsum("ij->ji", x) | einsum("ij->", x) | einsum("ba", x) | einsum("ii->i", m) | einsum("ii", m)
einsum("ijk->ik", t) | einsum("ij,ij->i", x, y) | einsum("ij, jk -> ki", x, m) | einsum("Ai,iB->AB", x, m)
einsum("...i->i...", t) | einsum("...i->...", t) | einsum("a...b,a...->b...", t, x)
einsum("...ij,...ij->...", x, y) | einsum("ij,kl->", x, m) | einsum("ui,uj->ij", u, x)
einsum("ij,ijk->ik", d, paddle.cast(t, "float64")) | einsum("ij,jk->ik", x, x) | einsum("ij->k", x)
einsum("ij,jk->ik", x) | einsum("ijk->", x) | einsum("i.j->i", x) | einsum("i1->i", x)
einsum("...i->", x) | einsum("ij->i->j", m) | einsum("ij,jk->ik", j, j)
matmul(x, m) | matmul(v, w) | matmul(x, t) | matmul(m, x, transpose_y=True) | matmul(v, m) | matmul(m, v)
dot(v, w) | dot(x, y) | cross(x, y) | cross(x, y, axis=1) | kron(x, y) | kron(v, w) | cholesky(s)
cholesky(s, upper=True) | inverse(s) | dist(x, y) | dist(x, y, 0) | dist(x, y, 1)
dist(x, y, float("inf")) | dist(x, v, 3) | t(x) | t(v) | norm(x) | norm(x, p=1) | norm(x, p=2, axis=1)
norm(x, p=float("inf"), axis=1, keepdim=True) | norm(x, p=0, axis=1) | norm(x, p="fro", axis=[0, 1])
norm(x, p=3, axis=[0, 1]) | norm(x, p="fro", axis=1) | norm(x, p=-float("inf"), axis=0)
norm(x, axis=[0, 1], keepdim=True) | norm(t, p="fro", axis=[0, 2]) | norm(t, p=float("inf"), axis=[1, 2])
trace(m) | trace(t, 1, 1, 2) | multiplex([x, y], q) | histogram(x, 4, -1, 1) | histogram(x)
histogram(j, bins=3) | sum(x) | sum(x, axis=1) | sum(x, axis=[0, 1], dtype="float64") | sum(b) | sum(j)
sum(h) | sum(x, axis=[-1]) | sum(x, axis=0, keepdim=True) | sum(v, axis=0) | sum(z) | sum(u) | mean(x)
mean(x, axis=1, keepdim=True) | mean(u) | mean(z) | mean(t, axis=[0, 2]) | max(x) | max(x, axis=1)
max(x, axis=[0, 1]) | max(z) | max(x, axis=0, keepdim=True) | min(x) | min(x, axis=1) | min(j, axis=0)
prod(x) | prod(x, axis=1, dtype="float64") | prod(j, axis=0) | all(b) | all(b, axis=1, keepdim=True)
any(b, axis=[0, 1]) | any(b) | any(b, axis=0) | logsumexp(x) | logsumexp(x, axis=1)
logsumexp(x, axis=1, keepdim=True) | logsumexp(t, axis=[0, 2]) | std(x)
std(x, axis=1, unbiased=False, keepdim=True) | std(v) | var(x) | var(x, axis=1) | var(t, axis=[0, 1])
median(x) | median(x, axis=1) | median(v) | median(j) | median(t, axis=2, keepdim=True) | numel(x)
rank(x) | shape(x) | shape(u) | shape(z) | is_empty(x) | argmax(x) | argmax(x, axis=0, keepdim=True)
argmax(x, keepdim=True) | argmax(v, axis=0) | argmax(x, -1, dtype="int32") | argmin(x)
argmin(x, axis=1) | argsort(x) | argsort(x, axis=0, descending=True) | sort(x) | sort(x, descending=True)
sort(x, axis=0) | topk(x, 2) | topk(x, 2, axis=0, largest=False) | topk(t, 2, axis=1) | nonzero(b)
nonzero(b, as_tuple=True) | where(b, x, y) | where(b) | where(b, x, v) | where(b, x, z)
masked_select(x, b) | unique(j) | unique(j, return_index=True, return_inverse=True, return_counts=True)
unique(n, axis=0) | unique(x) | unique(n, return_counts=True, axis=1) | index_select(x, i)
index_select(x, i, 1) | index_sample(x, n) | gather(x, i) | gather(x, i, axis=1) | gather(x, k)
gather(t, i, axis=2) | gather_nd(x, i3) | gather_nd(t, i) | scatter(x, i, y)
scatter(x, i, y, overwrite=False) | scatter_(x, i, y) | scatter_nd(i3, x, [4, 3])
scatter_nd_add(x, i3, y) | shard_index(i3, 20, 2, 0) | shard_index(i3, 20, 2, 1, ignore_value=-2)
allclose(x, y) | isclose(x, y) | isclose(x, x, 1e-3, 1e-4, True) | allclose(x, x, 1e-3, 1e-4, True)
equal(x, y) | equal(x, 1.0) | equal(j, 1)
equal_all(x, y) | equal_all(j, j) | greater_equal(x, y) | greater_than(x, v) | less_equal(j, j)
less_than(x, y) | not_equal(j, j) | logical_and(b, a) | logical_or(b, a) | logical_xor(b, a)
logical_not(b) | logical_not(x) | isfinite(x) | isinf(paddle.log(paddle.zeros_like(x)))
isnan(paddle.sqrt(x)) | isfinite(j) | is_tensor(x) | cast(x, "int32") | cast(j, "float32")
cast(x, "bool") | clip(x, -0.5, 0.5) | clip(x, min=0.0) | clip(x, max=0.1) | clip(j, 2, 4)
clip(x, min=z) | scale(x, 2.0, 1.0) | scale(x, 2.0, 1.0, bias_after_scale=False) | scale(j, 3)
scale(x, 2.0, 1.0, act="relu") | scale(z, 2.0) | increment(v[0:1])
increment(paddle.full([], 1, "int64"), 2) | cumsum(x) | cumsum(x, axis=1, dtype="float64")
cumsum(t, axis=-2) | cumsum(j) | assign(x) | assign([1.0, 2.0]) | assign(1.5)
assign(paddle.to_tensor([True, False])) | to_tensor([[1.0, 2.0]]) | to_tensor(3) | to_tensor(2.5)
to_tensor([1, 2], dtype="float64") | to_tensor(True) | arange(5) | arange(0.0, 2.0, 0.5)
arange(1, 7, 2, dtype="float32") | arange(k) | linspace(0, 1, 5) | linspace(1, 9, 3, "float64") | eye(3)
eye(3, 4, "int64") | full([2, 3], 1.5) | full([], 1.5) | full([2], True, "bool") | full([2, k], 1.0)
full([2], 2, "int64") | full_like(x, 2.0) | full_like(x, 2, "int64") | ones([2, 3])
ones([paddle.shape(x)[0], 3]) | ones_like(x) | ones_like(j) | zeros([2, 3], "int64")
zeros(paddle.shape(x)) | zeros_like(x) | zeros_like(b) | diag(v) | diag(m, offset=1)
diag(v, offset=-1, padding_value=2) | tril(m) | tril(x, -1) | triu(x, 1) | triu(t) | meshgrid(v, w)
meshgrid([v, w]) | reshape(x, [3, -1]) | reshape(x, [0, -1, 1]) | reshape(x, [-1, k])
reshape_(x, [3, 2]) | reshape(x, paddle.shape(t)[:1] * 3) | reshape(v[0:1], []) | reshape(z, [1])
flatten(t) | flatten(t, 1, 2) | flatten(t, -2, -1) | flatten(z) | squeeze(paddle.unsqueeze(x, [0, 3]))
squeeze(paddle.unsqueeze(x, [0, 3]), axis=0) | squeeze(v[0:1])
squeeze_(paddle.unsqueeze(x, 1), axis=[1]) | squeeze(x[0:1, 0:1], axis=[0, 1]) | unsqueeze(x, 0)
unsqueeze(x, [0, -1]) | unsqueeze(z, 0) | unsqueeze_(x, [0, 2]) | unsqueeze(x, k) | transpose(x, [1, 0])
transpose(t, [2, 0, 1]) | concat([x, y]) | concat([x, y], axis=1) | concat([x, y], axis=k)
stack([x, y]) | stack([x, y], axis=1) | stack([z, z]) | split(x, 3, axis=1) | split(x, [1, -1], axis=1)
split(t, 2, axis=-1) | chunk(x, 3, 1) | unbind(x) | unbind(v) | unstack(x, 1) | expand(v, [2, 3])
expand(x, [4, -1, 3]) | expand(z, [2]) | expand(v, [k, 3]) | broadcast_to(v, [2, 3]) | expand_as(v, x)
tile(x, [2, 1]) | tile(x, [2, 1, 2]) | tile(z, [3]) | flip(t, [0, 2]) | flip(x, 0) | roll(x, 1)
roll(x, [1, 2], [0, 1]) | slice(x, [0, 1], [0, 1], [1, 3]) | slice(x, [1], [k], [3])
slice(t, [0, 2], [-1, -3], [2, -1]) | strided_slice(x, [1], [0], [3], [2])
strided_slice(t, [1, 2], [2, 3], [0, 0], [-1, -2])
""".replace("\n", " | ")

ZERO_DIM = """
sort(z) | sort(z, descending=True) | sort(z, axis=0) | sort(z, axis=1) | argsort(z) | argsort(z, axis=0)
topk(z, 1) | topk(z, 1, axis=0) | topk(z, 1, axis=-1, largest=False) | topk(z, 2) | topk(z, k)
topk(z, 1, axis=1) | argmax(z) | argmax(z, axis=0) | argmax(z, axis=-1, keepdim=True) | argmin(z)
argmin(z, axis=0) | argmax(z, keepdim=True) | argmin(z, axis=1) | argmax(k, axis=0, dtype="int32")
nn.functional.softmax(z) | nn.functional.softmax(z, axis=0) | nn.functional.softmax(z, axis=1)
nn.functional.log_softmax(z) | nn.functional.log_softmax(z, axis=0) | cumsum(z) | cumsum(z, axis=0)
cumsum(z, axis=-1) | cumsum(k) | cumsum(k, axis=0) | cumsum(z, axis=0, dtype="float64")
cumsum(x, axis=2) | flip(z, []) | flip(z, 0) | flip(x, []) | unsqueeze(z, -1) | unsqueeze(z, [0, -1])
unsqueeze(z, 1) | squeeze(z) | squeeze(z, 0) | squeeze(z, [-1]) | squeeze(z, []) | squeeze(z, 1)
sum(z, axis=0) | sum(z, axis=[]) | sum(z, axis=0, keepdim=True) | sum(z, axis=[0]) | sum(z, axis=1)
sum(z, dtype="float64") | sum(k, axis=0) | mean(z, axis=-1, keepdim=True) | mean(z, axis=[])
max(z, axis=0) | min(z, axis=-1) | max(z, axis=[]) | prod(z) | prod(z, axis=0) | logsumexp(z)
prod(z, axis=-1, keepdim=True) | logsumexp(z, axis=0) | logsumexp(z, axis=-1, keepdim=True)
any(paddle.any(b), axis=0) | all(paddle.any(b), axis=-1, keepdim=True) | std(z) | var(z)
var(z, unbiased=False) | median(z) | median(z, axis=0) | norm(z) | norm(z, p=2) | transpose(z, [])
reshape(z, [1, 1]) | reshape(z, [-1]) | flatten(z, 0, 0) | tile(z, []) | tile(z, [2, 3]) | expand(z, [])
expand_as(z, x) | roll(z, 1) | roll(z, 1, 0) | t(z) | stack([z, z], 0) | concat([z, z]) | split(z, 1)
unbind(z) | unstack(z) | clip(z, 0.4, 0.5) | cast(z, "int32") | where(z > 0.5, z, z * 2) | nonzero(z)
where(z > 0.5, x, z) | masked_select(z, z > 0.1) | gather(v, k) | index_select(z, k) | gather(z, k)
gather_nd(v, k) | scatter(v, k, z) | scatter(x, k, v) | scatter(x, k, v, overwrite=False)
scatter(x, k, x[0:1]) | scatter(x, k, z) | unique(z) | unique(k, return_index=True) | is_empty(z)
allclose(z, z) | equal_all(z, z) | less_than(z, x) | logical_not(z) | pow(z, z) | add_n([z, z])
dot(z, z) | matmul(z, z) | kron(z, z) | kron(z, x) | dist(z, z) | dist(x, z) | histogram(z, 4, 0, 1)
to_tensor(z) | meshgrid(z, z) | meshgrid(z, v) | linspace(z, z + 1, 3) | einsum(",i->i", z, v)
slice(z, [0], [0], [1]) | nn.functional.embedding(k, x) | nn.functional.one_hot(k, 3)
""".replace("\n", " | ")

LATER = """
bitwise_and(j, j - 3) | bitwise_or(h, h * 2) | bitwise_xor(j, n) | bitwise_not(j) | bitwise_and(b, a)
bitwise_not(b) | bitwise_or(j, k) | bitwise_and(x, y) | outer(v, w) | outer(x, y) | outer(z, v)
inner(v, w) | inner(x, y) | inner(t, paddle.ones([4])) | inner(z, v) | masked_fill(x, b, 2.0)
masked_fill(x, b, z) | take_along_axis(x, n, 1) | take_along_axis(x, q, 1)
put_along_axis(x, q * 0, 5.0, 1) | put_along_axis(x, n, y, 1, "add")
put_along_axis(x, n, y, 1, "multiply") | put_along_axis(x, q, z, 0) | index_add(x, i, 0, y)
index_add(t, i, 2, t[:, :, 0:2]) | index_put(x, (i,), y) | index_put(x, (i, i), v[0:2], True)
index_put(x, (b,), z) | index_fill(x, i, 1, 2.0) | lerp(x, y, 0.3) | lerp(x, y, p) | lerp(v, x, z) | diff(x)
diff(x, n=1, axis=0) | diff(j) | diff(b) | diff(x, prepend=x[:, 0:1], append=y) | rot90(x) | rot90(x, 2)
rot90(t, -1, [1, 2]) | rot90(x, 0) | deg2rad(x) | rad2deg(x) | deg2rad(j) | logit(p) | logit(p, 0.3)
heaviside(x, y) | heaviside(x, v) | heaviside(j, j) | nan_to_num(x)
nan_to_num(paddle.log(x), 1.0, 2.0, 3.0) | nan_to_num(d) | amax(x) | amax(x, 1) | amin(x, [0, 1], True)
amin(paddle.sign(x), 0) | amax(j, -1) | nansum(x) | nansum(paddle.log(x), 1) | nanmean(paddle.log(x), 1)
nanmean(x) | nanmean(x, 0, True) | nansum(x, axis=0, dtype="float64") | count_nonzero(x, 1)
count_nonzero(j, keepdim=True) | frac(x * 3) | trunc(x * 3) | trunc(j) | frac(j) | logaddexp(x, y)
logaddexp(x, v) | sgn(x) | neg(x) | remainder(x, p) | floor_mod(j, j) | searchsorted(paddle.sort(v), x)
searchsorted(paddle.sort(x), y, True, True) | bucketize(x, paddle.sort(v))
bucketize(x, paddle.sort(v), True, True) | repeat_interleave(x, 2) | repeat_interleave(x, 2, 1)
repeat_interleave(x, i + 1, 0) | repeat_interleave(x, i, 0) | moveaxis(t, 0, 2)
moveaxis(t, [0, 1], [-1, 0]) | tensordot(x, m, 1) | tensordot(x, y) | tensordot(t, x, [[0, 1], [0, 1]])
tensordot(x, y, 0) | tensordot(t, t, [0, 2]) | cdist(x, y) | cdist(x, m, 1.0) | cdist(x, y, 0.0)
cdist(x, y, float("inf")) | cdist(x, y, 3.0) | cdist(x, y, 2.0, "donot_use_mm_for_euclid_dist")
quantile(x, 0.3) | quantile(x, [0.3, 0.6], 1) | quantile(x, 0.5, [0, 1], True) | quantile(x, 0.5, 0)
nanquantile(paddle.log(x), 0.5, 1) | nanmedian(x) | nanmedian(paddle.log(x), 1) | nanmedian(x, 0, True)
nanmedian(t, [0, 2]) | mode(n) | mode(x, 0) | mode(n, 1, True) | kthvalue(x, 2) | kthvalue(j, 2, 0)
diagonal(x) | diagonal(t, 1, 0, 2) | diagonal(t, -1, 1, 2) | diag_embed(x) | diagflat(v) | diagflat(x, 1)
unflatten(t, 2, [2, 2]) | unflatten(t, 2, [2, -1]) | trapezoid(x, dx=2.0, axis=0)
cumulative_trapezoid(x, None, 2.0, 0) | renorm(x, 1.0, 0, 0.5) | renorm(t, 2.0, -1, 1.0) | lgamma(p)
lgamma(x) | digamma(p) | polygamma(p, 1) | polygamma(p, 0) | polygamma(p, 2) | erfinv(x) | i0(x) | i0e(x)
i1(x) | i1e(x) | multigammaln(p + 2, 2) | acosh(p + 1) | asinh(x) | atanh(x) | atan2(x, y) | atan2(x, v)
hypot(x, y) | ldexp(x, j) | frexp(x) | nextafter(x, y) | fmax(x, y) | fmin(x, v) | fmax(j, n)
cumprod(x, 0) | cumprod(t, -1) | cumprod(x, 1, "float64") | logcumsumexp(x) | logcumsumexp(x, 1)
logcumsumexp(t, -2) | cummax(x) | cummax(x, 1) | cummin(x, 0) | cummin(j, -1, "int32") | cummax(x, 0)
take(x, n) | take(x, n, "wrap") | take(x, n + 5, "clip") | bincount(j[0]) | bincount(j[0], v)
bincount(j[0], minlength=10) | unique_consecutive(n) | unique_consecutive(j[0], True, True)
unique_consecutive(n, axis=0) | tril_indices(3, 3) | tril_indices(3, 4, -1) | triu_indices(3, 3, 1)
atleast_1d(z) | atleast_2d(v) | atleast_3d(x) | atleast_1d(x) | vsplit(x, 2) | vsplit(m, [1, 2])
crop(x, [1, 2], [1, 1]) | crop(x, [-1, 2]) | trapezoid(x, y, axis=0) | trapezoid(v) | trapezoid(v, w)
cumulative_trapezoid(v, w) | cumulative_trapezoid(x, y, axis=0)
""".replace("\n", " | ")

LINEAR_ALGEBRA = """
linalg.cholesky(s) | linalg.norm(x) | linalg.cond(s) | linalg.cond(s, "fro") | linalg.cond(s, 1)
linalg.cond(s, -2) | linalg.cond(s, "nuc") | linalg.det(s) | linalg.det(m) | linalg.slogdet(m)
linalg.slogdet(s) | linalg.inv(s) | linalg.pinv(x) | linalg.pinv(s, hermitian=True)
linalg.pinv(x, rcond=0.1) | linalg.solve(s, m) | linalg.solve(s, v) | linalg.triangular_solve(s, m)
linalg.qr(s) | linalg.qr(x) | linalg.qr(x, "complete") | linalg.svd(s) | linalg.svd(x) | linalg.svd(x, True)
linalg.eigh(s) | linalg.eigh(s, "U") | linalg.eigvalsh(s) | linalg.eigvalsh(s, "U")
linalg.matrix_power(s, 2) | linalg.matrix_power(s, 0) | linalg.matrix_power(s, -2)
linalg.matrix_power(m, 5) | linalg.multi_dot([x, m, m]) | linalg.multi_dot([v, m, m, w])
linalg.multi_dot([x, m]) | linalg.lu(s)
linalg.lu_unpack(*paddle.linalg.lu(m)) | linalg.matrix_rank(s) | linalg.matrix_rank(x, 0.1)
linalg.matrix_rank(s, hermitian=True) | linalg.triangular_solve(s, paddle.eye(3), False, False, True)
linalg.triangular_solve(s, m, transpose=True) | linalg.triangular_solve(s, m, upper=False)
linalg.cholesky_solve(m, paddle.tril(s)) | linalg.cholesky_solve(m, paddle.triu(s), upper=True)
linalg.solve(m, x) | linalg.det(x) | linalg.eigh(x) | linalg.multi_dot([x, x]) | linalg.multi_dot([x])
linalg.cond(x, 1) | linalg.eigh(s, "X") | linalg.solve(paddle.expand(s, [2, 3, 3]), m)
linalg.det(paddle.expand(s, [2, 3, 3])) | linalg.slogdet(paddle.expand(s, [2, 3, 3]))
linalg.qr(paddle.expand(s, [2, 3, 3])) | linalg.inv(x)
""".replace("\n", " | ")

SCATTERED = """
logspace(0, 2, 3) | logspace(1, 3, 4, 2.0, "float64") | logspace(0, 3, 4, 2, "int64") | vander(v) | vander(x)
vander(v, 4, True) | vander(v, 2) | vander(j[0]) | select_scatter(x, v, 0, 1) | select_scatter(t, x, 2, -1)
select_scatter(x, x, 0, 1) | diagonal_scatter(m, v) | diagonal_scatter(x, v[0:2], 1) | combinations(v)
combinations(v, 2, True) | combinations(v, 3) | combinations(v, 1) | combinations(x) | angle(x) | angle(x - 2)
abs_(x) | divide_(x, p) | logit_(p) | t_(x) | clone(x) | reverse(x, 0) | atleast_2d(v, z)
""".replace("\n", " | ")

KINDS = """
amax(u, 1) | amin(d) | nansum(u, 0) | nanmean(d, 1) | kthvalue(u, 2) | kthvalue(d, 1, 0) | mode(u)
nanmedian(d) | nanmedian(u, 1) | cummax(d, 1) | cumprod(u, 1) | cumprod(d, 0) | logcumsumexp(d, 0)
logcumsumexp(u, 1) | searchsorted(paddle.sort(d), d) | bucketize(u, paddle.sort(v)) | unique_consecutive(u)
quantile(d, 0.25, 1) | quantile(u, 0.25, 1) | lgamma(d * d + 1) | digamma(d * d + 1)
polygamma(d * d + 1, 2) | erfinv(d) | i0(d) | i1e(d) | acosh(d + 2) | atanh(u) | logit(d * d, 0.01)
trunc(d * 3) | frac(u) | deg2rad(d) | nan_to_num(u) | frexp(d) | lerp(d, d * 2, 0.3) | lerp(u, v, 0.5)
lerp(u, u, u) | atan2(d, d * d) | fmax(d, 0 * d) | heaviside(d, d) | hypot(u, v) | logaddexp(u, v)
ldexp(d, h) | ldexp(h, h) | nextafter(d, d * 2) | bitwise_xor(h, h) | bitwise_not(h)
masked_fill(u, b, 1.5) | take_along_axis(d, n, 1) | put_along_axis(d, n, d, 1)
index_add(u, i, 0, y) | index_add(d, i, 1, d[:, 0:2]) | index_put(u, (i,), y)
index_put(d, (i, i), d[0, 0:2]) | index_fill(d, i, 0, 1.0) | take(d, n) | repeat_interleave(u, 2, 1)
repeat_interleave(d, 3) | moveaxis(u, 0, 1) | rot90(d) | diagonal(u) | diagonal(d, 1) | diff(d, 1)
diff(u, 1, 1) | outer(d, d) | inner(d, d) | inner(u, v) | tensordot(d, d, 2) | cdist(d, d + 1)
renorm(d, 2.0, 0, 0.5) | trapezoid(d, axis=0) | vander(d[0]) | unflatten(d, 1, [3, 1]) | atleast_3d(u)
diagflat(d) | linalg.solve(paddle.cast(s, "float64"), paddle.transpose(d, [1, 0])) | linalg.qr(d)
linalg.svd(d) | linalg.eigh(paddle.cast(s, "float64")) | linalg.lu(paddle.cast(s, "float64"))
linalg.matrix_power(paddle.cast(s, "float64"), 3) | linalg.matrix_rank(d)
linalg.multi_dot([d, paddle.cast(s, "float64")]) | linalg.svd(u) | linalg.qr(u) | linalg.multi_dot([u, m])
F.celu(d) | F.mish(d) | F.glu(paddle.concat([d, d], 1)) | F.rrelu(d, training=False)
F.gaussian_nll_loss(d, d * 2, d * d + 1) | F.poisson_nll_loss(u, y) | F.soft_margin_loss(d, d)
F.multi_margin_loss(d, i) | F.multi_margin_loss(u, i) | F.triplet_margin_loss(u, u, v * u)
F.cosine_embedding_loss(u, u * v, i * 2 - 1) | F.hinge_embedding_loss(d, d)
F.multi_label_soft_margin_loss(u, paddle.cast(b, "float32")) | F.pairwise_distance(d, d * 2)
""".replace("\n", " | ").replace("F.", "nn.functional.")

NETWORKS = """
F.celu(x) | F.celu(x, 0.4) | F.mish(x) | F.glu(t)
F.glu(t[:, 0:2], 1) | F.rrelu(x, training=False) | F.rrelu(x, 0.1, 0.1)
F.leaky_relu_(x) | F.hardtanh_(x) | F.thresholded_relu_(x)
F.gaussian_nll_loss(x, y, p) | F.gaussian_nll_loss(x, y, p, True, reduction="sum")
F.poisson_nll_loss(x, p) | F.poisson_nll_loss(p, p, False, True, reduction="none")
F.soft_margin_loss(x, y) | F.soft_margin_loss(x, y, "none")
F.multi_margin_loss(x, i) | F.multi_margin_loss(x, i, 2, 0.5, v, "sum")
F.triplet_margin_loss(x, y, p)
F.triplet_margin_loss(x, y, p, 0.5, 1.0, 1e-5, True, "sum")
F.triplet_margin_with_distance_loss(x, y, p)
F.triplet_margin_with_distance_loss(x, y, p, swap=True, reduction="none")
F.cosine_embedding_loss(x, y, i * 2 - 1)
F.cosine_embedding_loss(x, y, i * 2 - 1, 0.3, "none") | F.hinge_embedding_loss(x, y)
F.hinge_embedding_loss(x, paddle.sign(y), 0.5, "sum")
F.multi_label_soft_margin_loss(x, paddle.cast(y > 0, "float32"))
F.multi_label_soft_margin_loss(x, paddle.cast(y > 0, "float32"), v, "none")
F.pairwise_distance(x, y) | F.pairwise_distance(x, y, 1.0, 0.0, True)
F.pixel_unshuffle(paddle.reshape(t, [1, 1, 4, 6]), 2)
F.pixel_unshuffle(paddle.reshape(t, [1, 4, 6, 1]), 2, "NHWC")
F.channel_shuffle(paddle.reshape(t, [1, 6, 2, 2]), 3)
F.channel_shuffle(paddle.reshape(t, [1, 2, 2, 6]), 2, "NHWC")
F.fold(paddle.reshape(t, [1, 4, 6]), [3, 4], 2)
F.fold(paddle.reshape(t, [1, 4, 6]), [4, 6], 2, 2)
F.zeropad2d(paddle.reshape(t, [1, 2, 3, 4]), [1, 0, 2, 1]) | F.sequence_mask(i, 4)
F.sequence_mask(i, 4, "float32")
F.max_unpool2d(*paddle.F.max_pool2d(paddle.reshape(t, [1, 1, 4, 6]), 2, return_mask=True), 2)
F.max_unpool1d(*paddle.F.max_pool1d(paddle.reshape(t, [1, 4, 6]), 2, return_mask=True), 2)
F.max_unpool3d(*paddle.F.max_pool3d(paddle.reshape(t, [1, 1, 2, 2, 6]), 2, return_mask=True), 2)
F.max_unpool2d(*paddle.F.max_pool2d(t[None], 3, 2, return_mask=True), 3, 2, output_size=[3, 4])
F.scaled_dot_product_attention(t[None], t[None], t[None])
F.hardswish(x) | F.hardsigmoid(x) | F.hardshrink(x)
F.hardtanh(x) | F.log_sigmoid(x) | F.tanhshrink(x)
F.softshrink(x) | F.selu(x) | F.relu6(x) | F.swish(x)
F.silu(x) | F.softsign(x) | F.relu_(x) | F.elu_(x)
F.softmax_(x) | F.leaky_relu(x) | F.thresholded_relu(x)
F.gelu(x) | F.softplus(x) | F.elu(x) | F.sigmoid(x)
F.log_softmax(x) | F.relu(x) | F.tanh(x) | F.celu(x, 0)
F.glu(x) | F.rrelu(x, 0.5, 0.1) | F.gumbel_softmax(x, axis=3)
F.gaussian_nll_loss(x, v, p) | F.soft_margin_loss(x, v)
F.soft_margin_loss(x, y, "middle") | F.triplet_margin_loss(x, y, p, -1.0)
F.pixel_unshuffle(x, 2) | F.channel_shuffle(paddle.reshape(t, [1, 6, 2, 2]), 4)
F.fold(x, [2, 2], 2) | F.cosine_embedding_loss(x, y, x)
F.multi_margin_loss(x, i3) | F.poisson_nll_loss(x, y, epsilon=-1.0)
F.hinge_embedding_loss(x, y, reduction="most")
F.gaussian_nll_loss(x, y, v[0:1] + 2) | F.gaussian_nll_loss(x, y, 0.5 + p[:, 0:1])
F.gaussian_nll_loss(x, y, p[:, 0])
""".replace("\n", " | ").replace("F.", "nn.functional.")

PLACES = """
x[[0, 1]] | x[:, (0, 2)] | x[(0, 1), (0, 2)] | x[..., (0, 2)] | t[(0, 1), :, (0, 2)] | t[0, :, (0, 2)]
t[0, (0, 2)] | x[i] | x[i, n[0, 0:2]] | x[:, i] | t[i, :, i] | t[:, i, i] | x[b] | t[b]
x[:, [True, False, True]] | x[[True, False], 1] | t[i, None] | x[range(2)]
paddle.static.setitem(x, [0, 1], 9.0) | paddle.static.setitem(x, (0, [0, 2]), 9.0)
paddle.static.setitem(x, (slice(None), (0, 2)), 9.0) | paddle.static.setitem(x, b, 9.0)
paddle.static.setitem(t, b, v[0]) | paddle.static.setitem(x, k, 9.0)
paddle.static.setitem(t, (slice(None), [2, 0]), w[0])
paddle.static.setitem(t, ([1, 0], slice(None), [2, 0]), w)
paddle.static.setitem(t, (slice(0, 1), [2, 0]), 3) | paddle.static.setitem(x, (b[:, 0], 1), 9.0)
paddle.static.setitem(t, (slice(None), slice(0, 2), [3, 1]), 9.0) | x & y | b & a | b|a | b ^ a | ~b | j & j
j|j | j ^ j | ~j | x.exp_() | x.add_(y) | x.clip_(-0.5, 0.5) | x.sigmoid() | x.sigmoid_()
x.scale_(2.0, 1.0) | x.subtract_(y) | p.sqrt_() | p.rsqrt_() | x.floor_() | x.ceil_() | x.round_()
p.reciprocal_() | x.flatten_()
x.lerp_(y, 0.3) | p.erfinv_() | x.log1p_() | x.size() | x.element_size() | m.cond()
"""

VOLUMES = """
nn.functional.grid_sample(g, c) | nn.functional.grid_sample(g, c * 0.8, "nearest")
nn.functional.grid_sample(g, c, padding_mode="border") | nn.functional.grid_sample(g, c, align_corners=False)
nn.functional.grid_sample(g, c, padding_mode="reflection", align_corners=False)
nn.functional.affine_grid(r, [2, 2, 2, 3, 2]) | nn.functional.affine_grid(r, [2, 2, 2, 3, 2], False)
nn.functional.interpolate(g, size=[2, 5, 3], data_format="NCDHW")
nn.functional.interpolate(g, size=[2, 2, 2], data_format="NDHWC")
nn.functional.pad(f, [1, -1, 0, -2]) | nn.functional.pad(f, [-1, 2, 1, 0], "reflect")
nn.functional.pad(f, [-1, 2, 1, 0], "replicate") | nn.functional.pad(f, [-1, 2, 1, 0], "circular")
nn.functional.pad(l, [-1, 1], "reflect", 0.0, "NCL") | nn.functional.pad(l, [2, -1], "replicate", 0.0, "NLC")
nn.functional.pad(g, [-1, 0, 1, 0, 0, -1], "constant", 2.0, "NCDHW")
nn.functional.zeropad2d(f, [-1, 1, -1, 1]) | nn.functional.one_hot(i, o)
nn.functional.max_pool2d(f, 3, 2, [1, 0], return_mask=True)
nn.functional.max_pool2d(f[:, :, 0:4], 2, 2, "SAME", return_mask=True) | to_tensor([z, 3.0])
assign([v[0:1], 3.0]) | to_tensor([x, x]) | to_tensor((z, 2.0), dtype="int32")
""".replace("\n", " | ")

NOTHING = """
diagflat(z) | nanmedian(z) | nanmedian(z, keepdim=True) | unique_consecutive(e) | histogram(e)
histogram(e, 4, 0, 1) | nanmedian(e, axis=1) | nn.functional.softmax(e) | nn.functional.softmax(e, axis=0)
nn.functional.log_softmax(e, axis=0) | nn.functional.kl_div(z, z)
nn.functional.kl_div(z, z, reduction="none")
linalg.lu(x) | linalg.lu(m) | linalg.lu(t) | linalg.lu(paddle.transpose(t, [0, 2, 1]))
linalg.lu_unpack(*paddle.linalg.lu(m))
""".replace("\n", " | ")

FOURIER = """
as_real(paddle.fft.fft(x)) | as_real(paddle.fft.fft(t, axis=1)) | as_real(paddle.fft.fft(x, 5))
as_real(paddle.fft.fft(x, 2, 0, "ortho")) | as_real(paddle.fft.ifft(x)) | as_real(paddle.fft.rfft(l))
as_real(paddle.fft.rfft(t, norm="forward")) | as_real(paddle.fft.ihfft(l, norm="ortho"))
fft.irfft(paddle.fft.rfft(l)) | fft.irfft(paddle.fft.rfft(l), 5) | fft.irfft(paddle.fft.fft(l), 7)
fft.hfft(paddle.fft.ihfft(l)) | fft.hfft(paddle.fft.fft(l), 6, norm="ortho") | as_real(paddle.fft.fft2(t))
as_real(paddle.fft.rfft2(t)) | fft.irfft2(paddle.fft.fft2(t)) | fft.irfftn(paddle.fft.rfftn(t))
fft.irfftn(paddle.fft.fftn(t), s=[2, 5], axes=[0, 1]) | as_real(paddle.fft.ifftn(t, norm="forward"))
as_real(paddle.fft.ihfftn(t)) | fft.hfft2(paddle.fft.fft2(t), norm="ortho") | as_real(paddle.fft.fft(j))
as_real(paddle.fft.fftn(t, [2, 5], [0, 2])) | fft.fftshift(l) | fft.ifftshift(l, [1, 2]) | fft.fftfreq(5)
fft.fftfreq(6, 0.2) | fft.rfftfreq(5, 0.2) | signal.stft(l, 4) | as_complex(t)
signal.istft(paddle.signal.stft(l[:, 0], 4, 1), 4, 1)
as_real(paddle.signal.stft(l[:, 0], 4))
as_real(paddle.signal.stft(l[:, 0], 4, 2, onesided=False, normalized=True))
real(paddle.complex(x, y) * paddle.complex(y, x)) | abs(paddle.complex(x, y))
angle(paddle.complex(x, y)) | real(paddle.conj(paddle.complex(x, y)) * paddle.complex(y, y))
as_real(paddle.exp(paddle.complex(x, y)))
as_real(paddle.complex(x, y) / paddle.complex(p, x)) | as_real(paddle.complex(x, v))
as_real(paddle.polar(p, x))
as_real(paddle.matmul(paddle.complex(x, y), paddle.complex(m, s))) | as_real(paddle.sum(paddle.complex(x, y)))
as_real(paddle.sin(paddle.complex(x, y))) | as_real(paddle.complex(x, y) * 2.0)
real(paddle.fft.ifft(paddle.fft.fft(x) * paddle.fft.fft(y)))
""".replace("\n", " | ")

OPERATORS = """
x + 1 | x + y | 1 - x | x - 2 | x * 2 | 2 * x | x / 2 | 1 / p | x ** 2 | 2 ** x | p ** y | x // y
x // p | x % p | x % 2 | j // 2 | j + 1 | j / 2 | j * 2 | j + 1.5 | j - 0.5 | 2 - j | j ** 2 | j ** 0.5
j / j | j % 2 | x + j | j + x | x + v | x + z | -x | x > 0.1 | x == y | x != y | x <= v | x < j | j >= 3
x @ m | v @ w | x @ t | b + 1 | 1 / u | 2 ** u | u ** 2 | z * z | x.astype("int64") | x.T | x.numel()
x.add(y) | x.mean() | x.sum(axis=0) | x.reshape([6]).sum() | x.clone() | x.detach() | x.matmul(m)
x.cast("float64") | x.unsqueeze(0).tile([2, 1, 1]) | u.reshape([-1]) | t.flatten(1).max() | p.log().exp()
x[0] | x[0, 1] | x[:, 1] | x[1:, ::2] | x[-1] | x[..., 0] | x[None] | x[0, None] | x[i] | x[i, i] | x[b]
x[j > 3] | x[k] | u[0] | t[0, :, 1] | t[:, :, 1:] | t[0:1, 1:2] | t[0, 1, 2] | t[::2] | t[::-1]
t[..., None] | t[:, None, 0] | t[[0, 1]] | t[[0, 1], [1, 2]] | t[:, i] | t[-1, -2:] | t[k, 1] | t[k:2]
t[k:] | x[...] | x[:] | t[:, ::-1, 1:3] | t[1:, 1:-1] | z.T | v.T | z[...] | z[None] | z[0] | z @ z | -z
""".replace("\n", " | ")

RANDOM = """
bernoulli(p) | empty([2, 3]) | empty_like(x) | empty([k, 2]) | multinomial(p, 2)
multinomial(p, 4, True) | normal(0.0, 1.0, [2, 3]) | normal(x, 1.0) | normal(x, p) | rand([2, 3])
rand([k, 3]) | randint(0, 10, [2, 3]) | randint(5) | randn([2, 3]) | randperm(5) | uniform([2, 3])
uniform([2, 3], min=0.0, max=2.0, dtype="float64") | uniform([k, 3]) | randperm(5, "float32")
standard_normal([2, 3]) | standard_normal([k, 3]) | randint_like(x, 3) | randint_like(j, 2, 5) | poisson(p)
nn.functional.gumbel_softmax(x) | nn.functional.gumbel_softmax(x, 0.5, True, 0)
""".replace("\n", " | ")

GRAPHS_AND_BOXES = """
geometric.segment_sum(t, paddle.arange(2)) | geometric.segment_mean(x, paddle.arange(2) * 2)
geometric.segment_max(d, paddle.zeros([2], "int64")) | incubate.segment_min(x, paddle.zeros([2], "int64"))
geometric.send_u_recv(x, i, i) | geometric.send_u_recv(t, i, i, "mean", 4)
geometric.send_u_recv(x, i, i, "x")
incubate.graph_send_recv(x, i, i, "max") | geometric.send_ue_recv(x, y, i, i, "sub", "mean")
geometric.send_ue_recv(x, p, i, i, "div", "min") | geometric.send_uv(x, y, i, i)
geometric.send_uv(x, p, i, i, "div")
incubate.softmax_mask_fuse(f, f[:, 0:1]) | incubate.identity_loss(x, "mean") | incubate.identity_loss(x, 0)
incubate.identity_loss(x) | incubate.identity_loss(x, "most") | incubate.nn.functional.fused_linear(x, m)
incubate.nn.functional.fused_matmul_bias(x, y, transpose_y=True)
vision.ops.prior_box(f, f, [2.0]) | vision.ops.prior_box(f, f, [2.0], [4.0], [2.0], flip=True, clip=True)
vision.ops.roi_align(f, paddle.cumsum(paddle.abs(r[0]), -1), paddle.arange(1, 3, dtype="int32"), 2)
vision.ops.roi_pool(f, paddle.cumsum(paddle.abs(r[0]), -1), paddle.arange(1, 3, dtype="int32"), (2, 1))
vision.ops.box_coder(paddle.cumsum(paddle.abs(r[0]), -1), [0.1, 0.1, 0.2, 0.2], r, "decode_center_size")
vision.ops.nms(paddle.cumsum(paddle.abs(r[0]), -1))
vision.ops.nms(paddle.cumsum(paddle.abs(r[0]), -1), 0.1, v)
""".replace("\n", " | ")


def expressions() -> list[str]:
    """All expressions, as Python over `paddle` and the inputs."""
    functions = [
        "paddle." + text.strip()
        for text in "|".join(
            (
                ROWS,
                ZERO_DIM,
                LATER,
                LINEAR_ALGEBRA,
                SCATTERED,
                KINDS,
                NETWORKS,
                VOLUMES,
                NOTHING,
                FOURIER,
                RANDOM,
                GRAPHS_AND_BOXES,
            )
        ).split(" | ")
        if text.strip(" |")
    ]
    operators = " | ".join((OPERATORS, PLACES)).replace("\n", " | ")
    return functions + [text.strip() for text in operators.split(" | ") if text.strip(" |")]


def is_random(code: str) -> bool:
    """True if two runs may differ."""
    return code.replace("paddle.", "", 1) in [text.strip() for text in RANDOM.split(" | ")]


def feeds() -> dict[str, np.ndarray]:
    """The value of each input."""
    rng = np.random.RandomState(5)
    found = {}
    for name, (_, dtype, shape, low, high) in INPUTS.items():
        integer = dtype in ("int64", "int32", "bool")
        made = rng.randint(low, high, shape) if integer else rng.uniform(low, high, shape)
        found[name] = np.asarray(made, dtype)
    found["s"] = (found["m"] @ found["m"].T + np.eye(3)).astype("float32")
    return found


def used_inputs(code: str) -> list[str]:
    """The inputs whose names stand in an expression."""
    names = set(compile(code, "row", "eval").co_names)
    return [name for name in INPUTS if name in names]


# outputs of whose shapes 2.6.2 says nothing
UNDECLARED = ("XShape", "MedianIndex", "Infos", "SummedIds", "Dst_count", "Path")


class Built:
    """An expression in programs of its own, with its gradients where it has some."""

    def __init__(self, paddle: Any, guard: Any, code: str) -> None:
        self.paddle, self.code = paddle, code
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        with guard(), paddle.static.program_guard(self.main, self.startup):
            self.inputs = {
                name: paddle.static.data(name, INPUTS[name][0], INPUTS[name][1]) for name in used_inputs(code)
            }
            self.sources = [var for name, var in self.inputs.items() if INPUTS[name][1].startswith("float")]
            for var in self.sources:
                var.stop_gradient = False
            result = eval(code, {"paddle": paddle, **self.inputs})
            self.results = list(result) if isinstance(result, (list, tuple)) else [result]
            self.ops = [self.described(op) for op in self.main.global_block().ops]
            self.gradients = self.gradients_of([one for one in self.results if self.is_float(one)])

    def is_float(self, var: Any) -> bool:
        floats = (self.paddle.float32, self.paddle.float64)
        return hasattr(var, "dtype") and var.dtype in floats and not var.stop_gradient

    def gradients_of(self, outs: list[Any]) -> list[Any]:
        """Gradients of the sum of squares of the results."""
        if not outs or not self.sources or is_random(self.code):
            return []
        return list(self.paddle.static.gradients([out * out for out in outs], self.sources))

    def described(self, op: Any) -> list[Any]:
        """Type, slots, and attributes of an op, and the declared shapes of its outputs."""
        block = self.main.global_block()
        outs = {slot: op.output(slot) for slot in sorted(op.output_names) if op.output(slot)}
        if op.type == "einsum":  # 2.6.2 keeps operands as its kernel has rearranged them
            outs = {"Out": outs["Out"]}
        shown = [slot for slot in outs if slot not in UNDECLARED]
        shapes = [list(block.var(name).shape) for slot in shown for name in outs[slot]]
        attrs = {name: op.attr(name) for name in sorted(op.attr_names) if name not in STAMPS}
        return [op.type, {s: op.input(s) for s in sorted(op.input_names) if op.input(s)}, outs, shapes, attrs]

    def run(self, **other: np.ndarray) -> list[np.ndarray]:
        """The values of the results, then those of the gradients; `other` are fed instead of `feeds()`."""
        exe = self.paddle.static.Executor(self.paddle.CPUPlace())
        fed = {name: {**feeds(), **other}[name] for name in self.inputs}
        wanted = [one for one in self.results + self.gradients if hasattr(one, "name")]
        found = exe.run(self.main, feed=fed, fetch_list=wanted, return_numpy=False) if wanted else []
        return [np.asarray(np.array(value)) for value in found]


_STAMPS = """
op_role op_role_var op_namescope op_callstack op_device with_quant_attr use_mkldnn use_quantizer use_cudnn
mkldnn_data_type values
"""
STAMPS = frozenset(_STAMPS.split())
