"""Layers that move, pick, join, cut and pad, each with its own gradient."""

from typing import Any, Dict

from ..cases import Built, Layer, case, fixed, layer_group


def constant(fluid: Any, value: Any, dtype: str) -> Any:
    return fluid.layers.assign(fixed(value, dtype)(None, 0, {})[0])


@case
def shape_ops(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "reshape": lambda x: layers.reshape(x, [0, -1]),
        "reshape_act": lambda x: layers.reshape(x, [4, -1, 2], act="tanh"),
        "reshape_shape": lambda x: layers.reshape(x, [-1, 6], actual_shape=constant(fluid, [6, 4], "int32")),
        "squeeze": lambda x: layers.squeeze(layers.reshape(x, [2, 1, 3, 1, 4]), axes=[1, 3]),
        "unsqueeze": lambda x: layers.unsqueeze(x, axes=[0, 2]),
        "transpose": lambda x: layers.transpose(x, [2, 0, 1]),
        "flatten": lambda x: layers.flatten(x, axis=2),
        "stack": lambda x: layers.stack([x, x * 2.0], axis=1),
        "unstack": lambda x: layers.unstack(x, axis=1),
        "split": lambda x: layers.split(x, num_or_sections=2, dim=2),
        "split_sections": lambda x: layers.split(x, num_or_sections=[1, 2], dim=1),
        "split_rest": lambda x: layers.split(x, num_or_sections=[1, -1], dim=-1)[1],
        "concat": lambda x: layers.concat([x, layers.tanh(x), x], axis=-1),
        "expand": lambda x: layers.expand(x, expand_times=[1, 2, 3]),
        "expand_as": lambda x: layers.expand_as(x, layers.zeros([4, 3, 8], "float32")),
        "slice": lambda x: layers.slice(x, axes=[0, 2], starts=[1, -3], ends=[2, -1]),
        "slice_long": lambda x: layers.slice(x, axes=[1], starts=[1], ends=[1000]),
        "strided_slice": lambda x: layers.strided_slice(x, [1, 2], [0, 3], [3, 0], [2, -1]),
        "index": lambda x: x[0, 1:],
        "index_last": lambda x: x[:, -1, 1:3],
        "index_back": lambda x: x[::-1],
        "reverse": lambda x: layers.reverse(x, axis=[0, 2]),
        "flip": lambda x: layers.flip(x, dims=[1]),
        "roll": lambda x: layers.roll(x, shifts=1, dims=1),
        "tril": lambda x: layers.tril(layers.reshape(x, [6, 4]), diagonal=-1),
        "triu": lambda x: layers.triu(x, diagonal=1),
        "t": lambda x: layers.t(layers.reshape(x, [6, 4])),
    }
    return layer_group(fluid, (2, 3, 4), made)


@case
def gather_ops(fluid: Any) -> Built:
    layers = fluid.layers

    def int64(value: Any) -> Any:
        return constant(fluid, value, "int64")

    def int32(value: Any) -> Any:
        return constant(fluid, value, "int32")

    def updates(x: Any) -> Any:
        return layers.slice(x, axes=[0], starts=[0], ends=[2]) * 2.0

    def held(x: Any) -> Any:
        # 1.8.5's gradient of rows that are written over is wrong
        found = layers.scale(x, 1.0)
        found.stop_gradient = True
        return found

    made: Dict[str, Layer] = {
        "gather": lambda x: layers.gather(x, int64([3, 0, 3])),
        "gather_nd": lambda x: layers.gather_nd(x, int32([[0, 1], [3, 2], [0, 1]])),
        "gather_nd_rows": lambda x: layers.gather_nd(x, int64([[2], [2]])),
        "scatter": lambda x: layers.scatter(held(x), int64([3, 1]), updates(x)),
        "scatter_add": lambda x: layers.scatter(held(x), int32([1, 1]), updates(x), overwrite=False),
        "scatter_nd_add": lambda x: layers.scatter_nd_add(x, int64([[1], [1]]), updates(x)),
        "scatter_nd": lambda x: layers.scatter_nd(int64([[4], [0]]), updates(x), [6, 3]),
        "index_select": lambda x: layers.index_select(x, int64([2, 0, 2]), dim=1),
        "index_sample": lambda x: layers.index_sample(x, int64([[0, 1], [2, 2], [1, 0], [0, 0]])),
        "multiplex": lambda x: layers.multiplex([x, layers.tanh(x)], int32([[0], [1], [1], [0]])),
        "diag_embed": lambda x: layers.diag_embed(x),
        "label_smooth": lambda x: layers.label_smooth(layers.softmax(x), epsilon=0.2),
    }
    return layer_group(fluid, (4, 3), made)


@case
def pad_ops(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "pad": lambda x: layers.pad(x, [0, 0, 1, 0, 0, 2, 1, 1], pad_value=0.5),
        "pad2d": lambda x: layers.pad2d(x, [1, 0, 2, 1], pad_value=-1.0),
        "pad2d_reflect": lambda x: layers.pad2d(x, [1, 1, 2, 0], mode="reflect"),
        "pad2d_edge": lambda x: layers.pad2d(x, [0, 2, 1, 1], mode="edge"),
        "pad_constant_like": lambda x: layers.pad_constant_like(
            layers.zeros([3, 5, 4, 4], "float32"), x, 0.25
        ),
        "crop": lambda x: layers.crop_tensor(x, shape=[2, 2, 2, 3], offsets=[0, 1, 1, 0]),
        "crop_rest": lambda x: layers.crop_tensor(x, shape=[-1, 3, -1, 2], offsets=[0, 0, 2, 1]),
        "space_to_depth": lambda x: layers.space_to_depth(layers.slice(x, [3], [0], [2]), 2),
        "pixel_shuffle": lambda x: layers.pixel_shuffle(x, 2),
        "shuffle_channel": lambda x: layers.shuffle_channel(x, group=2),
        "temporal_shift": lambda x: layers.temporal_shift(x, seg_num=2, shift_ratio=0.25),
        "unfold": lambda x: layers.unfold(x, kernel_sizes=[2, 2], strides=1, paddings=1, dilations=1),
        "im2sequence": lambda x: layers.im2sequence(x, filter_size=[2, 2], stride=[2, 1]),
        "fsp": lambda x: layers.fsp_matrix(x, layers.tanh(x)),
        "add_position": lambda x: layers.add_position_encoding(
            layers.reshape(x, [2, 6, 8]), alpha=0.7, beta=0.3
        ),
        "meshgrid": lambda x: layers.meshgrid([layers.reshape(x, [-1]), layers.reshape(x, [-1])])[1],
    }
    return layer_group(fluid, (2, 4, 4, 3), made)
