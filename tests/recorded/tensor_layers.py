"""Single layers on tensors; the names are those of the layer and what is special."""

from __future__ import annotations

from typing import Any

import numpy as np

from .facts import Cases, declare

OPS = ("add", "sub", "mul", "div", "max", "min", "pow")


def values(fluid: Any) -> Cases:
    """Variables, constants, copies, searches of `fluid.layers.tensor`."""
    layers, data = fluid.layers, declare(fluid)
    return {
        "create_tensor": lambda: layers.assign(data(), layers.create_tensor("float32")),
        "create_tensor_named": lambda: layers.assign(
            data(), layers.create_tensor("float32", name="abc", persistable=True)
        ),
        "create_parameter": lambda: layers.create_parameter(
            [3, 4], "float32", default_initializer=fluid.initializer.Constant(2.0)
        ),
        "create_parameter2": lambda: layers.create_parameter([3, 4], "float32", name="W", is_bias=True),
        "create_parameter3": lambda: layers.create_parameter(
            [3, 4],
            "float32",
            attr=fluid.ParamAttr(name="q", learning_rate=0.5),
            default_initializer=fluid.initializer.Constant(2.0),
        ),
        "create_global_var": lambda: layers.create_global_var(
            [2], 1.5, "float32", persistable=True, name="g"
        ),
        "cast": lambda: layers.cast(data(), "int32"),
        "cast2": lambda: layers.cast(data(dtype="int64"), "float64"),
        "cast_bad": lambda: layers.cast(3, "int32"),
        "cast_bad2": lambda: layers.cast(data(), "complex"),
        "concat": lambda: layers.concat([data(), data("y")]),
        "concat1": lambda: layers.concat([data("x", (2, 3)), data("y", (2, 4))], axis=-1, name="cc"),
        "concat_one": lambda: layers.concat(data()),
        "concat_axisvar": lambda: layers.concat(
            [data("x", (2, 3)), data("y", (2, 3))], axis=layers.fill_constant([1], "int32", 1)
        ),
        "concat_bad": lambda: layers.concat([data("x", (2, 3)), data("y", (2, 4), "int64")], axis=1),
        "sums": lambda: layers.sums([data("x", (2, 3)), data("y", (2, 3))]),
        "sums_out": lambda: layers.sums(
            [data("x", (2, 3)), data("y", (2, 3))], out=layers.create_tensor("float32")
        ),
        "sums1": lambda: layers.sums(data("x", (2, 3))),
        "sums_bad": lambda: layers.sums([data("x", (2, 3), "bool")]),
        "assign": lambda: layers.assign(data()),
        "assign_np": lambda: layers.assign(np.arange(6).reshape(2, 3).astype("float32")),
        "assign_np_i": lambda: layers.assign(np.arange(6).reshape(2, 3).astype("int32")),
        "assign_np_l": lambda: layers.assign(np.arange(6).reshape(2, 3)),
        "assign_np_d": lambda: layers.assign(np.arange(6).reshape(2, 3).astype("float64")),
        "assign_np_b": lambda: layers.assign(np.array([True, False])),
        "assign_list": lambda: layers.assign([1, 2]),
        "assign_out": lambda: layers.assign(data("x", (2, 3)), layers.create_tensor("float32", name="o")),
        "assign_np_out": lambda: layers.assign(
            np.ones((2, 2), "float32"), layers.create_tensor("float32", name="o")
        ),
        "fill_like_batch": lambda: layers.fill_constant_batch_size_like(data(), [1, 5], "float32", 2.5),
        "fill_like_batch2": lambda: layers.fill_constant_batch_size_like(
            data(), [4, -1], "int64", 3, output_dim_idx=1, force_cpu=True
        ),
        "fill": lambda: layers.fill_constant([2, 3], "float32", 0.1),
        "fill_i": lambda: layers.fill_constant([2], "int64", 2**40),
        "fill_bool": lambda: layers.fill_constant([2], "bool", True),
        "fill_i2": lambda: layers.fill_constant([2], "int32", 7.9),
        "fill_out": lambda: layers.fill_constant(
            [2], "float32", 3, force_cpu=True, out=layers.create_tensor("float32")
        ),
        "fill_shapevar": lambda: layers.fill_constant(layers.fill_constant([2], "int32", 3), "float32", 1.0),
        "fill_shapelist": lambda: layers.fill_constant(
            [2, layers.fill_constant([1], "int32", 3)], "float32", 1.0
        ),
        "fill_valvar": lambda: layers.fill_constant([2], "float32", layers.fill_constant([1], "float32", 3)),
        "fill_bad": lambda: layers.fill_constant([2], "uint8", 1),
        "fill_bad2": lambda: layers.fill_constant(2, "float32", 1),
        "argmin": lambda: layers.argmin(data("x", (3, 4))),
        "argmax": lambda: layers.argmax(data("x", (3, 4)), axis=-1),
        "argmax1": lambda: layers.argmax(data("x", (5,))),
        "argsort": lambda: layers.argsort(data("x", (3, 4))),
        "argsort_d": lambda: layers.argsort(data("x", (3, 4)), axis=0, descending=True, name="as"),
        "ones": lambda: layers.ones([2, 3], "float32"),
        "zeros": lambda: layers.zeros((2, 3), "int64", force_cpu=True),
        "reverse": lambda: layers.reverse(data("x", (3, 4)), 1),
        "reverse2": lambda: layers.reverse(data("x", (3, 4)), [0, 1]),
        "isfinite": lambda: layers.isfinite(data()),
        "range": lambda: layers.range(0, 10, 3, "int32"),
        "range_f": lambda: layers.range(0.5, 3, 0.5, "float32"),
        "range_v": lambda: layers.range(layers.fill_constant([1], "int64", 2), 10, 2, "int64"),
        "linspace": lambda: layers.linspace(0, 10, 5, "float32"),
        "linspace1": lambda: layers.linspace(2.0, 10, 1, "float64"),
        "linspace_v": lambda: layers.linspace(
            layers.fill_constant([1], "float32", 2), 10, layers.fill_constant([1], "int32", 4), "float32"
        ),
        "zeros_like": lambda: layers.zeros_like(data()),
        "zeros_like_out": lambda: layers.zeros_like(data(), out=layers.create_tensor("float32")),
        "ones_like": lambda: layers.ones_like(data(dtype="int64")),
        "diag": lambda: layers.diag(data("x", (3,))),
        "diag_np": lambda: layers.diag(np.arange(3, dtype="int64")),
        "eye": lambda: layers.eye(3),
        "eye2": lambda: layers.eye(3, 2, dtype="int32"),
        "eye_b": lambda: layers.eye(2, 3, batch_shape=[2, 1]),
        "eye_bad": lambda: layers.eye(-1),
        "triu": lambda: layers.triu(data("x", (3, 4))),
        "tril": lambda: layers.tril(data("x", (2, 3, 4)), diagonal=-1, name="t"),
        "kron": lambda: layers.kron(data("x", (2, 3)), data("y", (2, 2))),
        "kron2": lambda: layers.kron(data("x", (3,)), data("y", (2, 2)), name="k"),
        "trace": lambda: layers.trace(data("x", (3, 4))),
        "trace2": lambda: layers.trace(data("x", (3, 4, 2)), offset=1, dim1=1, dim2=2),
        "trace_bad": lambda: layers.trace(data("x", (3,))),
        "full": lambda: layers.full([2], 3.0, dtype="float32"),
        "full1": lambda: layers.full([2], 3.0),
        "full_dev": lambda: layers.full([2], 3, device="cpu", name="z"),
        "full_like": lambda: layers.full_like(data("x", (2, 3)), 3.5),
        "full_like2": lambda: layers.full_like(
            data("x", (2, 3)), 3.5, dtype="int32", stop_gradient=False, name="n"
        ),
        "arange": lambda: layers.arange(0, 5),
        "arange2": lambda: layers.arange(0, 5.5, 2, dtype="float32"),
        "zeros_bad": lambda: layers.zeros([2], "bool"),
        "zeros_like_bad": lambda: layers.zeros_like(3),
        "range_bad": lambda: layers.range("a", 2, 3, "int32"),
        "range_castv": lambda: layers.range(layers.fill_constant([1], "int32", 2), 10, 2, "int64"),
        "linspace_num": lambda: layers.linspace(1, 2, 2.7, "float32"),
        "argmax_bad": lambda: layers.argmax(data("x", (2, 3), "bool")),
        "triu_bad": lambda: layers.triu(data("x", (2,))),
        "reverse_bad": lambda: layers.reverse(data("x", (2, 3)), 1.5),
        "isfinite_bad": lambda: layers.isfinite(data("x", (2, 3), "bool")),
        "global_var_bad": lambda: layers.create_global_var(3, 1.0, "float32"),
        "cast_same": lambda: layers.cast(data("x", (2, 3)), "float32"),
        "cast_vt": lambda: layers.cast(data("x", (2, 3)), fluid.core.VarDesc.VarType.FP64),
        "cast_np": lambda: layers.cast(data("x", (2, 3)), np.int64),
        "assign_f16": lambda: layers.assign(np.ones(3, "float16")),
        "concat_tup": lambda: layers.concat((data("x", (2, 3)), data("y", (2, 3))), 1),
        "concat_bad5": lambda: layers.concat(3),
        "sums_bad2": lambda: layers.sums(3),
        "create_parameter_int": lambda: layers.create_parameter([3], "int32"),
        "create_tensor_bad": lambda: layers.create_tensor(None),
    }


def shapes(fluid: Any) -> Cases:
    """The same elements in another shape."""
    layers, data = fluid.layers, declare(fluid)
    return {
        "shape": lambda: layers.shape(data()),
        "size": lambda: layers.size(data()),
        "rank": lambda: layers.rank(data()),
        "reshape": lambda: layers.reshape(data("x", (2, 3, 4)), [0, -1]),
        "reshape_neg": lambda: layers.reshape(data("x", (None, 3, 4)), [-1, 6]),
        "reshape_neg0": lambda: layers.reshape(data("x", (None, 3, 4)), [0, -1]),
        "reshape_var": lambda: layers.reshape(data("x", (2, 3, 4)), layers.assign(np.array([4, 6], "int32"))),
        "reshape_vlist": lambda: layers.reshape(
            data("x", (2, 3, 4)), [layers.fill_constant([1], "int32", 4), -1]
        ),
        "reshape_actual": lambda: layers.reshape(
            data("x", (2, 3, 4)), [4, 6], actual_shape=layers.assign(np.array([6, 4], "int32"))
        ),
        "reshape_act": lambda: layers.reshape(data("x", (2, 3, 4)), (4, 6), act="relu", name="r"),
        "reshape_inpl": lambda: layers.reshape(data("x", (2, 3, 4)), (4, 6), inplace=True),
        "reshape_bad": lambda: layers.reshape(data("x", (2, 3, 4)), [-1, -1]),
        "reshape_bad2": lambda: layers.reshape(data("x", (2, 3, 4)), [5, -1]),
        "reshape_bad3": lambda: layers.reshape(data("x", (2, 3, 4)), [2, 3, 4, 0]),
        "reshape_bad4": lambda: layers.reshape(data("x", (2, 3, 4)), 4),
        "reshape_bad5": lambda: layers.reshape(data("x", (2, 3, 4)), [-2, 12]),
        "squeeze": lambda: layers.squeeze(data("x", (2, 1, 3, 1)), [1]),
        "squeeze_all": lambda: layers.squeeze(data("x", (2, 1, 3, 1)), []),
        "squeeze_neg": lambda: layers.squeeze(data("x", (2, 1, 3, 1)), [-1], name="s"),
        "squeeze_batch": lambda: layers.squeeze(data("x", (None, 1, 3, 1)), [1]),
        "unsqueeze": lambda: layers.unsqueeze(data("x", (2, 3)), [0, 2]),
        "unsqueeze_i": lambda: layers.unsqueeze(data("x", (2, 3)), -1),
        "unsqueeze_v": lambda: layers.unsqueeze(data("x", (2, 3)), layers.fill_constant([1], "int32", 1)),
        "unsqueeze_vl": lambda: layers.unsqueeze(
            data("x", (2, 3)), [0, layers.fill_constant([1], "int32", 1)]
        ),
        "flatten": lambda: layers.flatten(data("x", (2, 3, 4)), 2),
        "flatten0": lambda: layers.flatten(data("x", (2, 3, 4)), 0),
        "flatten_b": lambda: layers.flatten(data("x", (None, 3, 4)), 1, name="f"),
        "flatten_bad": lambda: layers.flatten(data("x", (2, 3, 4)), 5),
        "flatten_bad2": lambda: layers.flatten(3),
        "transpose": lambda: layers.transpose(data("x", (2, 3, 4)), [2, 0, 1]),
        "transpose_bad": lambda: layers.transpose(data("x", (2, 3, 4)), [2, 0]),
        "transpose_bad2": lambda: layers.transpose(data("x", (2, 3, 4)), [2, 0, 5]),
        "split": lambda: layers.split(data("x", (2, 6)), 3),
        "split_d": lambda: layers.split(data("x", (2, 6)), [2, -1], dim=1, name="sp"),
        "split_0": lambda: layers.split(data("x", (4, 6)), 2, 0),
        "split_v": lambda: layers.split(data("x", (2, 6)), [2, layers.fill_constant([1], "int32", 4)], dim=1),
        "split_dv": lambda: layers.split(data("x", (2, 6)), 2, dim=layers.fill_constant([1], "int32", 1)),
        "split_bad": lambda: layers.split(data("x", (2, 6)), 4),
        "split_bad2": lambda: layers.split(data("x", (2, 6)), [-1, -1]),
        "split_bad3": lambda: layers.split(data("x", (2, 6)), "a"),
        "stack": lambda: layers.stack([data("x", (2, 3)), data("y", (2, 3))], 1),
        "stack1": lambda: layers.stack(data("x", (2, 3))),
        "unstack": lambda: layers.unstack(data("x", (2, 3)), 1),
        "expand": lambda: layers.expand(data("x", (2, 3)), [2, 1]),
        "expand_v": lambda: layers.expand(data("x", (2, 3)), layers.assign(np.array([2, 2], "int32"))),
        "expand_vl": lambda: layers.expand(data("x", (2, 3)), [layers.fill_constant([1], "int32", 2), 1]),
        "expand_b": lambda: layers.expand(data("x", (None, 3)), [2, 2], name="e"),
        "expand_bad": lambda: layers.expand(data("x", (2, 3)), [2]),
        "t": lambda: layers.t(data("x", (2, 3))),
        "t_bad": lambda: layers.t(data("x", (2, 3, 4))),
        "stack_bad": lambda: layers.stack([1, 2]),
        "expand_bool": lambda: layers.expand(data("x", (2, 3), "bool"), [2, 1]),
        "expand_bad1": lambda: layers.expand(data("x", (2, 3)), [-2, 1]),
        "split_bad4": lambda: layers.split(data("x", (2, 6)), 1),
        "split_bad5": lambda: layers.split(data("x", (2, 1)), [1, 2]),
        "split_neg": lambda: layers.split(data("x", (2, 6, 4)), 2, dim=-2),
        "split_tup": lambda: layers.split(data("x", (None, 6)), (2, 4), dim=1),
        "unstack_bad": lambda: layers.unstack(3),
        "unsqueeze_neg2": lambda: layers.unsqueeze(data("x", (2, 3)), [-2, -1]),
        "squeeze_bad": lambda: layers.squeeze(data("x", (2, 1, 3)), 1),
        "reshape_bool": lambda: layers.reshape(data("x", (2, 3), "bool"), [3, 2]),
        "reshape_actual_list": lambda: layers.reshape(data("x", (2, 3)), [3, 2], actual_shape=[3, 2]),
    }


def arithmetic(fluid: Any) -> Cases:
    """Element-wise layers, scaling, clipping."""
    layers, data = fluid.layers, declare(fluid)

    def binary(op: str) -> Any:
        return getattr(layers, "elementwise_" + op)

    cases: Cases = {op: lambda op=op: binary(op)(data("x", (2, 3, 4)), data("y", (3,)), axis=1) for op in OPS}
    cases.update(
        (op + "_act", lambda op=op: binary(op)(data("x", (2, 3)), data("y", (2, 3)), act="relu", name="nm"))
        for op in OPS
    )
    cases.update(
        (op, lambda op=op: binary(op)(data("x", (2, 3), "int64"), layers.fill_constant([3], "int64", 2)))
        for op in ("mod", "floordiv")
    )
    cases.update(
        {
            "sum": lambda: layers.sum([data("x", (2, 3)), data("y", (2, 3))]),
            "sum_1": lambda: layers.sum(data("x", (2, 3))),
            "el_bad": lambda: layers.elementwise_add(data("x", (2, 3), "bool"), data("y", (2, 3))),
            "el_bad2": lambda: layers.elementwise_add(data("x", (2, 3)), 2),
            "scale": lambda: layers.scale(data(), 2.0, 3.0),
            "scale2": lambda: layers.scale(data(), 2.0, 3.0, bias_after_scale=False, act="tanh", name="sc"),
            "scale_v": lambda: layers.scale(data(), layers.fill_constant([1], "float32", 2), 3.0),
            "scale_i": lambda: layers.scale(data(dtype="int64"), 2.0, 1),
            "scale_bad": lambda: layers.scale(3),
            "addcmul": lambda: layers.addcmul(data("x", (2, 3)), data("y", (2, 3)), data("z", (2, 3)), 2.0),
            "addcmul2": lambda: layers.addcmul(data("x", (2, 3)), data("y", (2, 3)), data("z", (2, 3))),
            "addmm": lambda: layers.addmm(
                data("x", (2, 4)), data("y", (2, 3)), data("z", (3, 4)), alpha=2.0, beta=0.5
            ),
            "addmm_b": lambda: layers.addmm(data("x", (1, 4)), data("y", (2, 3)), data("z", (3, 4))),
            "addmm_b2": lambda: layers.addmm(data("x", (4,)), data("y", (2, 3)), data("z", (3, 4))),
            "allclose": lambda: layers.allclose(data("x", (2, 4)), data("y", (2, 4)), rtol=0.1),
            "clamp": lambda: layers.clamp(data("x", (2, 4)), 0.7, 1.0),
            "clamp2": lambda: layers.clamp(data("x", (2, 4)), min=0.7),
            "cross": lambda: layers.cross(data("x", (3, 3)), data("y", (3, 3))),
            "cross1": lambda: layers.cross(data("x", (2, 3)), data("y", (2, 3)), dim=1),
            "el_equal": lambda: layers.elementwise_equal(data("x", (3, 4)), data("y", (3, 4))),
            "dist": lambda: layers.dist(data("x", (3, 4)), data("y", (3, 4)), 2),
            "dist1": lambda: layers.dist(data("x", (3, 4)), data("y", (4,)), float("inf")),
            "dot": lambda: layers.dot(data("x", (3, 4)), data("y", (3, 4))),
            "clip": lambda: layers.clip(data("x", (3, 4)), 0.7, 1.0, name="c"),
            "clip_bn": lambda: layers.clip_by_norm(data("x", (3, 4)), 1.0),
            "clip_bn1": lambda: layers.clip_by_norm(data("x", (3, 4)), 100.0, name="c"),
            "positions": lambda: layers.add_position_encoding(data("x", (2, 3, 4)), 1.0, 0.5),
        }
    )
    return cases


def parts(fluid: Any) -> Cases:
    """Slices, gathers, crops, ids."""
    layers, data = fluid.layers, declare(fluid)
    return {
        "diag_embed": lambda: layers.diag_embed(data("x", (2, 3))),
        "diag_embed1": lambda: layers.diag_embed(data("x", (2, 3)), 1, 0, 2),
        "diag_embed2": lambda: layers.diag_embed(np.ones((2, 3), "float32"), -1),
        "flip": lambda: layers.flip(data("x", (2, 3)), [1]),
        "flip1": lambda: layers.flip(data("x", (2, 3)), [0, 1], name="f"),
        "index_sample": lambda: layers.index_sample(data("x", (3, 3)), data("i", (3, 2), "int64")),
        "index_select": lambda: layers.index_select(data("x", (3, 4)), data("i", (2,), "int64")),
        "index_select1": lambda: layers.index_select(data("x", (3, 4)), data("i", (5,), "int32"), 1),
        "meshgrid": lambda: layers.meshgrid([data("x", (3,)), data("y", (2,))]),
        "nonzero": lambda: layers.nonzero(data("x", (3, 2), "bool")),
        "nonzero1": lambda: layers.nonzero(data("x", (3, 2), "bool"), as_tuple=True),
        "nonzero2": lambda: layers.nonzero(data("x", (3,), "int32"), as_tuple=True),
        "roll": lambda: layers.roll(data("x", (3, 4)), 1),
        "roll1": lambda: layers.roll(data("x", (3, 4)), [1, -1], [0, 1]),
        "roll_bad": lambda: layers.roll(data("x", (3, 4)), [1, -1], [0]),
        "slice": lambda: layers.slice(data("x", (4, 5, 6)), [0, 2], [1, -3], [3, -1]),
        "slice_b": lambda: layers.slice(data("x", (None, 5)), [0, 1], [1, 0], [1000, 2]),
        "slice_v": lambda: layers.slice(
            data("x", (4, 5)), [0, 1], [layers.fill_constant([1], "int32", 1), 0], [3, 2]
        ),
        "slice_v2": lambda: layers.slice(
            data("x", (4, 5)),
            [0, 1],
            layers.assign(np.array([1, 0], "int32")),
            layers.assign(np.array([3, 2], "int32")),
        ),
        "slice_bad": lambda: layers.slice(data("x", (4, 5)), 0, 1, 2),
        "strided": lambda: layers.strided_slice(data("x", (4, 5, 6)), [0, 2], [0, -1], [4, 0], [2, -2]),
        "strided_v": lambda: layers.strided_slice(
            data("x", (4, 5)),
            [0, 1],
            [layers.fill_constant([1], "int32", 1), 0],
            [3, layers.fill_constant([1], "int32", 4)],
            [1, 2],
        ),
        "strided_v2": lambda: layers.strided_slice(
            data("x", (4, 5)),
            [0, 1],
            layers.assign(np.array([1, 0], "int32")),
            layers.assign(np.array([3, 2], "int32")),
            layers.assign(np.array([1, 1], "int32")),
        ),
        "strided_b": lambda: layers.strided_slice(data("x", (None, 5)), [0, 1], [0, 4], [2, 1], [1, -1]),
        "gather": lambda: layers.gather(data("x", (4, 5)), data("i", (3,), "int64")),
        "gather1": lambda: layers.gather(data("x", (4, 5)), data("i", (3, 1), "int32"), overwrite=False),
        "gather_nd": lambda: layers.gather_nd(data("x", (4, 5)), data("i", (3, 2), "int64")),
        "gather_nd1": lambda: layers.gather_nd(data("x", (4, 5)), data("i", (3, 1), "int32"), name="g"),
        "scatter1": lambda: layers.scatter(
            data("x", (4, 5)), layers.assign(np.array([3, 0], "int64")), data("u", (2, 5)), overwrite=False
        ),
        "scatter_nd": lambda: layers.scatter_nd(data("i", (3, 1), "int64"), data("u", (3, 5)), [4, 5]),
        "scatter_nd_add": lambda: layers.scatter_nd_add(
            data("x", (4, 5)), data("i", (3, 1), "int64"), data("u", (3, 5)), name="s"
        ),
        "one_hot": lambda: layers.one_hot(data("i", (3, 1), "int64"), 4),
        "one_hot1": lambda: layers.one_hot(
            data("i", (None, 1), "int32"), layers.fill_constant([1], "int32", 4)
        ),
        "one_hot2": lambda: layers.one_hot(data("i", (3, 1), "int64"), 2, allow_out_of_range=True),
        "f_one_hot": lambda: fluid.one_hot(data("i", (3,), "int64"), 4),
        "f_one_hot1": lambda: fluid.one_hot(data("i", (3, 1), "int64"), 4),
        "topk": lambda: layers.topk(data("x", (3, 4)), 2),
        "where": lambda: layers.where(data("x", (3, 4), "bool")),
        "multiplex": lambda: layers.multiplex(
            [data("x", (3, 4)), data("y", (3, 4))], layers.assign(np.array([[1], [0], [1]], "int32"))
        ),
        "multiplex_bad": lambda: layers.multiplex(
            [data("x", (3, 4))], layers.assign(np.array([[1], [0], [1]], "int32"))
        ),
        "crop": lambda: layers.crop(data("x", (3, 4)), [2, 2], [1, 0]),
        "crop1": lambda: layers.crop(data("x", (3, 4)), data("y", (2, 3)), name="c"),
        "crop2": lambda: layers.crop(data("x", (3, 4)), [2, 2], layers.assign(np.array([1, 2], "int32"))),
        "crop_tensor": lambda: layers.crop_tensor(data("x", (3, 4)), [2, 2], [1, 0]),
        "crop_tensor_1": lambda: layers.crop_tensor(data("x", (3, 4)), [-1, 2], [1, 0], name="c"),
        "crop_tensor_2": lambda: layers.crop_tensor(
            data("x", (3, 4)),
            [2, layers.fill_constant([1], "int32", 2)],
            [layers.fill_constant([1], "int32", 1), 0],
        ),
        "crop_tensor_4": lambda: layers.crop_tensor(data("x", (None, 4)), [2, -1]),
        "crop_tensor_bad": lambda: layers.crop_tensor(data("x", (3, 4)), None, [1, 0]),
        "crop_tensor_bad1": lambda: layers.crop_tensor(data("x", (3, 4)), [0, 2], [1, 0]),
        "unique": lambda: layers.unique(data("x", (6,), "int64")),
        "unique1": lambda: layers.unique(data("x", (6,), "int32"), dtype="int64"),
        "unique_counts": lambda: layers.unique_with_counts(data("x", (6,), "int64")),
        "unique_counts_bad": lambda: layers.unique_with_counts(data("x", (6,), "int64"), dtype="float32"),
        "shard_index": lambda: layers.shard_index(data("x", (3, 1), "int64"), 20, 2, 0),
        "shard_index1": lambda: layers.shard_index(data("x", (3, 1), "int64"), 3, 2, 1, -5),
        "shard_index_bad": lambda: layers.shard_index(data("x", (3, 1), "int64"), 3, 2, 2),
        "cumsum": lambda: layers.cumsum(data("x", (3, 4)), 1),
        "cumsum1": lambda: layers.cumsum(data("x", (3, 4)), axis=0, exclusive=True, reverse=True),
        "cumsum2": lambda: layers.cumsum(data("x", (3, 4))),
        "counter": lambda: layers.autoincreased_step_counter(),
        "counter1": lambda: layers.autoincreased_step_counter("cc", 0, 2),
        "counter2": lambda: [layers.autoincreased_step_counter(), layers.autoincreased_step_counter()],
        "pad_like": lambda: layers.pad_constant_like(data("x", (3, 4)), data("y", (2, 3)), 0.5),
        "pad": lambda: layers.pad(data("x", (3, 4)), [0, 1, 2, 0], 0.5),
    }
