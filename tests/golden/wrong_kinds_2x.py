"""Calls of 2.x's functions with one argument of a wrong kind, and how to try them.

Each is a row of `functions_2x.py` or of `MORE`, in which one argument is another value: None, a number, a
string, a list, an array, or a Variable of another dtype. The same calls are built under 2.6.2
(`record_wrong_kinds_2x.py` writes what it raises) and under FluidLite.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from .functions_2x import INPUTS, expressions

# variables of `MORE` beside those of `functions_2x.py`: name -> shape, dtype
ALSO: dict[str, tuple[list[int], str]] = {
    "image": ([2, 4, 6, 6], "float32"),
    "kernel1": ([4, 3, 2], "float32"),
    "kernel2": ([4, 3, 2, 2], "float32"),
    "kernel3": ([4, 2, 2, 2, 2], "float32"),
    "back1": ([3, 4, 2], "float32"),
    "back2": ([3, 4, 2, 2], "float32"),
    "back3": ([2, 4, 2, 2, 2], "float32"),
    "bilinears": ([5, 3, 3], "float32"),
    "offsets": ([2, 8, 4, 5], "float32"),
    "masks": ([2, 4, 4, 5], "float32"),
    "boxes": ([5, 4], "float32"),
    "sizes": ([2, 2], "int32"),
    "rows": ([2], "int32"),
    "beams": ([4, 2, 3], "int64"),
    "anchors": ([2, 14, 5, 6], "float32"),
    "sentence": ([2, 4, 3], "float32"),
    "steps": ([5, 2, 4], "float32"),
    "labels": ([2, 3], "int32"),
    "lengths": ([2], "int64"),
    "classes": ([2], "int64"),
    "many": ([2, 2, 3, 4], "float32"),
    "scores": ([2, 3, 5], "float32"),
    "found": ([2, 5, 4], "float32"),
    "cells": ([4, 3], "float32"),
}
# functions of which `functions_2x.py` has no row
MORE = """
F.conv1d(l, kernel1) | F.conv2d(f, kernel2) | F.conv3d(g, kernel3) | F.conv1d_transpose(l, back1)
F.conv2d_transpose(f, back2) | F.conv3d_transpose(g, back3) | F.conv2d(f, kernel2, stride=1)
F.maxout(image, 2) | F.prelu(f, v) | F.dropout(x, 0.5) | F.dropout2d(f, 0.5) | F.dropout3d(g, 0.5)
F.alpha_dropout(x, 0.5) | F.label_smooth(x) | F.label_smooth(x, y) | F.linear(x, m, v)
F.unfold(f, 2) | F.upsample(f, [3, 3]) | F.bilinear(x, y, bilinears) | F.cosine_similarity(x, y)
F.avg_pool1d(l, 2) | F.avg_pool2d(f, 2) | F.avg_pool3d(g, 2) | F.max_pool1d(l, 2) | F.max_pool3d(g, 2)
F.adaptive_avg_pool1d(l, 2) | F.adaptive_avg_pool2d(f, 2) | F.adaptive_avg_pool3d(g, 2)
F.adaptive_max_pool1d(l, 2) | F.adaptive_max_pool2d(f, 2) | F.adaptive_max_pool3d(g, 2)
F.binary_cross_entropy(p, y) | F.binary_cross_entropy_with_logits(x, y) | F.cross_entropy(x, classes)
F.binary_cross_entropy(p, y, x, "mean") | F.binary_cross_entropy_with_logits(x, y, p, "mean")
F.cross_entropy(x, classes, v) | F.dice_loss(l, lengths) | F.l1_loss(x, y) | F.l1_loss(x, y, "mean")
F.hsigmoid_loss(x, i3, 5, cells) | F.log_loss(p[:, 0:1], y[:, 0:1]) | F.mse_loss(x, y)
F.log_loss(p, y) | F.mse_loss(x, y, "mean") | F.margin_ranking_loss(x, y, p) | F.nll_loss(x, classes)
F.nll_loss(x, classes, v) | F.npair_loss(x, y, v[0:2]) | F.sigmoid_focal_loss(x, y)
F.sigmoid_focal_loss(x, y, w) | F.smooth_l1_loss(x, y) | F.smooth_l1_loss(x, y, "mean", 1.0)
F.softmax_with_cross_entropy(x, i3) | F.square_error_cost(x, y)
F.ctc_loss(steps, labels, lengths, classes) | F.local_response_norm(f, 3) | F.pixel_shuffle(image, 2)
F.gather_tree(beams, beams) | F.normalize(x) | F.temporal_shift(f, 2) | F.batch_norm(f, v, w)
F.batch_norm(x, v, w, v, w) | F.layer_norm(x, 3, v, w) | F.instance_norm(f) | F.softmax(x, -1, "float32")
F.instance_norm(f, None, None, v, w) | F.log_softmax(x, -1, "float32") | F.interpolate(f, [3, 3])
F.interpolate(f, None, 2.0) | F.grid_sample(f, masks) | F.fold(l, [2, 2], 1) | F.diag_embed(x)
addmm_(m, m, s) | cumsum_(x) | cumprod_(x, 0) | equal_(x, y) | where_(b, x, y) | cos_(x) | tan_(x)
logical_and_(b, a) | less_than_(x, y) | floor_divide_(j, n) | remainder_(x, p) | bitwise_and_(j, n)
bitwise_not_(j) | triu_(m) | tril_(m) | sin_(x) | pow_(x, 2) | acos_(x) | expm1_(x) | sinh_(x) | neg_(x)
lgamma_(x) | square_(x) | atan_(x) | erf_(x) | greater_than_(x, y) | transpose_(x, [1, 0]) | log_(p)
multiply_(x, y) | logical_not_(b) | trunc_(x) | frac_(x) | digamma_(p) | renorm_(x, 1.0, 0, 0.5)
multigammaln_(p, 2) | nan_to_num_(x) | index_add_(x, i, 0, y) | ldexp_(x, j) | polygamma_(p, 1)
masked_fill_(x, b, 1.0) | hypot_(x, y) | index_fill_(x, i, 0, 1.0) | cast_(x, "float64") | i0_(x)
is_complex(x) | is_integer(x) | is_floating_point(x) | complex(x, y) | polar(x, y) | as_complex(sizes)
as_real(x) | real(x) | imag(x) | broadcast_shape([2, 3], [3]) | broadcast_tensors([x, y]) | numel(x)
create_parameter([2, 3], "float32") | gather(x, classes, 0) | scatter_nd(i3, x, [4, 3]) | exponential_(x)
linalg.householder_product(m, v) | linalg.lstsq(m, s) | linalg.eig(m) | linalg.eigvals(m) | linalg.cov(x)
linalg.cholesky_solve(m, s) | linalg.eigh(s, "L") | linalg.lu(s, True) | linalg.vector_norm(x)
fft.fft(x) | fft.ifft(x) | fft.rfft(x) | fft.fft2(x) | fft.fftn(x) | fft.rfftn(x) | fft.hfftn(x)
fft.ihfft(x) | fft.ihfftn(x)
geometric.segment_min(x, classes) | geometric.reindex_graph(classes, lengths, rows)
incubate.segment_sum(x, classes) | incubate.segment_mean(x, classes) | incubate.segment_max(x, classes)
vision.ops.yolo_box(anchors, sizes, [10, 13], 2, 0.01, 32) | vision.ops.deform_conv2d(f, offsets, kernel2)
vision.ops.distribute_fpn_proposals(boxes, 2, 5, 4, 224)
vision.ops.matrix_nms(found, scores, 0.1, 0.1, 4, 2)
vision.ops.psroi_pool(image, boxes, rows, 2) | metric.accuracy(x, i3) | static.accuracy(x, i3)
static.auc(x, i3) | static.data("fed", [2, 3], "float32") | static.create_global_var([2], 1.0, "float32")
static.create_parameter([2, 3], "float32") | static.Print(x) | text.viterbi_decode(sentence, m, lengths)
static.nn.fc(x, 4) | static.nn.batch_norm(f) | static.nn.bilinear_tensor_product(x, y, 4)
static.nn.embedding(i, [9, 2]) | static.nn.conv2d(f, 4, 2) | static.nn.conv2d_transpose(f, 4, None, 2)
static.nn.conv3d(g, 4, 2) | static.nn.conv3d_transpose(g, 4, None, 2) | static.nn.data_norm(x)
static.nn.group_norm(image, 2) | static.nn.instance_norm(f) | static.nn.layer_norm(x)
static.nn.prelu(f, "all") | static.nn.row_conv(t, 2) | static.nn.spectral_norm(x) | static.nn.nce(x, i3, 5)
static.nn.deform_conv2d(f, offsets, masks, 4, 2)
""".replace("\n", " | ").replace("F.", "nn.functional.")

DTYPES = (
    *("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"),
    *("complex64", "complex128"),
)
# what FluidLite computes although 2.6.2 refuses it: functions -> argument -> kinds
_WHOLE = "bool int8 uint8 int16 int32 int64"
_FRACTIONS = "float16 float32 float64 complex64 complex128"
_KEPT = {
    # operands of two dtypes, each of any (docs/DIFFERENCES.md, two-dtypes)
    (
        "add subtract divide maximum minimum pow floor_divide remainder floor_mod mod fmax fmin "
        "matmul divide_ floor_divide_ remainder_"
    ): {"x": _WHOLE, "y": _WHOLE},
    "multiply multiply_": {"x": f"{_WHOLE} {_FRACTIONS}", "y": f"{_WHOLE} {_FRACTIONS}"},
    # functions of complex numbers
    "cumsum cumsum_ log log_ reciprocal rsqrt sqrt tanh tanh_ nn.functional.tanh": {
        "x": "complex64 complex128"
    },
    # one number for all sides; 2.6.2 takes Variables of another size than that which is tried
    "nn.functional.pad nn.functional.zeropad2d": {"pad": "int int64", "padding": "int int64"},
    "nn.functional.affine_grid": {"out_shape": "int64"},
    "nn.functional.interpolate nn.functional.upsample": {"size": "int"},
    # without another dtype, of which the function asks
    "linspace": {"start": "float64"},
    # alone it may have any dtype, as nonzero's; beside x and y the function asks
    "where": {"condition": "int8 uint8 int16 int32 int64 float16 float32 float64 complex64 complex128"},
}
KEPT = {f"paddle.{name}": kept for names, kept in _KEPT.items() for name in names.split()}
# what 2.6.2 refuses for its kind by an error that is no TypeError: functions -> argument -> kinds
_OF_KINDS = {
    "cdist": {"compute_mode": "None int float list array float32 int64"},
    "cumulative_trapezoid trapezoid": {"dx": "list tuple array"},
    "fft.fftfreq fft.rfftfreq": {"n": "array int64 float32", "d": "array int64 float32"},
    "fft.hfft fft.irfft": {"n": "float str list tuple array"},
    "logcumsumexp": {"axis": "int64 float32"},
    "nn.functional.binary_cross_entropy": {"weight": "int float"},
    "nn.functional.grid_sample": {"align_corners": "None int float str list tuple array"},
    "renorm renorm_": {"p": "None", "max_norm": "None"},
}
OF_KINDS = {f"paddle.{name}": kinds for names, kinds in _OF_KINDS.items() for name in names.split()}
# what stands in the place of an argument; those of Variables are made of the input's declared shape
VALUES = {
    "None": "None",
    "int": "3",
    "float": "1.5",
    "str": '"a"',
    "list": "[1, 2]",
    "tuple": "(1, 2)",
    "array": "numpy.ones([2, 3], 'float32')",
    "Variable": "x",
    "Variable[int64]": "o",
}


def kind_of(name: str) -> tuple[Any, str]:
    """The declared shape and the dtype of an input."""
    return ALSO[name] if name in ALSO else INPUTS[name][:2]


def _called(code: str) -> ast.Call | None:
    """The call that an expression is, where it is one of a function of `paddle`."""
    call = ast.parse(code, mode="eval").body
    if not isinstance(call, ast.Call) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    return call if ast.unparse(call.func).startswith("paddle.") else None


def _kinds(argument: ast.expr) -> dict[str, str]:
    """Kind -> the code of the value, for an argument."""
    if not isinstance(argument, ast.Name):
        return VALUES
    name = argument.id
    own = kind_of(name)[1]
    dtypes = {f"dtype {dtype}": f"{name}__{dtype}" for dtype in DTYPES if dtype != own}
    return {**{kind: text for kind, text in VALUES.items() if not kind.startswith("Variable")}, **dtypes}


def all_rows() -> list[str]:
    """All calls as they are meant; 2.6.2 refuses some."""
    return [*expressions(), *("paddle." + text.strip() for text in MORE.split(" | ") if text.strip())]


def calls(rows: list[str]) -> dict[str, dict[str, str]]:
    """Function -> "argument: kind" -> the code of a call; arguments are numbers or names."""
    found: dict[str, dict[str, str]] = {}
    for code in rows:
        call = _called(code)
        if call is None or "setitem" in code:
            continue
        cases = found.setdefault(ast.unparse(call.func), {})
        for place, argument in enumerate(call.args):
            for kind, text in _kinds(argument).items():
                args = [*map(ast.unparse, call.args[:place]), text, *map(ast.unparse, call.args[place + 1 :])]
                named = [f"{each.arg}={ast.unparse(each.value)}" for each in call.keywords]
                cases.setdefault(f"{place}: {kind}", _text(call, [*args, *named]))
                if kind.startswith("dtype "):
                    args = [_like(each, argument, kind[6:]) for each in call.args]
                    cases.setdefault(f"{place}: all of {kind}", _text(call, [*args, *named]))
        for keyword in call.keywords:
            for kind, text in VALUES.items():
                named = [
                    f"{each.arg}={text if each is keyword else ast.unparse(each.value)}"
                    for each in call.keywords
                ]
                cases.setdefault(
                    f"{keyword.arg}: {kind}", _text(call, [*map(ast.unparse, call.args), *named])
                )
    return found


def _like(one: ast.expr, argument: ast.expr, dtype: str) -> str:
    """The code of an argument; inputs in it of the same dtype as `argument` get another one, too."""
    if not isinstance(argument, ast.Name):
        return ast.unparse(one)
    own = kind_of(argument.id)[1]
    changed = ast.parse(ast.unparse(one), mode="eval").body
    for each in ast.walk(changed):
        if isinstance(each, ast.Name) and _is_input(each.id) and kind_of(each.id)[1] == own:
            each.id = f"{each.id}__{dtype}"
    return ast.unparse(changed)


def _is_input(name: str) -> bool:
    return name in INPUTS or name in ALSO


def _text(call: ast.Call, arguments: list[str]) -> str:
    return f"{ast.unparse(call.func)}({', '.join(arguments)})"


def raised(paddle: Any, code: str) -> str:
    """Python's classes that the error of a call in a program of its own has; "" without an error."""
    names = {each.id for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Name)}
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        given = {"paddle": paddle, "numpy": np}
        for name in sorted(names - {"paddle", "numpy"}):
            base, _, dtype = name.partition("__")
            if _is_input(base):
                shape, own = kind_of(base)
                given[name] = paddle.static.data(name, shape, dtype or own)
        try:
            eval(code, given)
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
            return " ".join(kinds[: kinds.index("Exception")]) or "Exception"
    return ""
