"""Layers for text matching, click-through models and trees: each appends one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.initializer import Constant
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.boxes.suppression import multiclass_nms2
from fluidlite.layers.build import one_op, temporaries
from fluidlite.layers.tensors.indexing import slice
from fluidlite.layers.tensors.shaping import reshape

__all__ = [
    "fused_elemwise_activation",
    "fused_embedding_seq_pool",
    "index_sample",
    "match_matrix_tensor",
    "multiclass_nms2",
    "partial_concat",
    "partial_sum",
    "rank_attention",
    "search_pyramid_hash",
    "sequence_topk_avg_pooling",
    "shuffle_batch",
    "sparse_embedding",
    "tdm_child",
    "tdm_sampler",
    "tree_conv",
    "var_conv_2d",
]

_NUMBERS = ["float16", "float32", "float64", "int32", "int64"]


# ---------------------------------------------------------------------- fused ops
def fused_elemwise_activation(
    x: Variable,
    y: Variable,
    functor_list: Sequence[str] | str,
    axis: int = -1,
    scale: float = 0.0,
    save_intermediate_out: bool = True,
) -> Variable:
    """Two functions in one op: ["relu", "elementwise_add"] is relu(x + y), ["elementwise_add", "relu"] is
    x + relu(y).

    One of them is elementwise_add or elementwise_mul, the other scale, relu, tanh, sigmoid; `scale` is the
    factor of "scale".
    """
    if isinstance(functor_list, str):
        functor_list = functor_list.split(",")
    if not isinstance(functor_list, list) or len(functor_list) != 2:
        raise ValueError("functor_list should be a list of str, and the length should be 2.")
    helper = LayerHelper("fused_elemwise_activation", functor_list=functor_list)
    out, intermediate = (helper.create_variable_for_type_inference(dtype=x.dtype) for _ in range(2))
    helper.append_op(
        type="fused_elemwise_activation",
        inputs={"X": x, "Y": y},
        outputs={"Out": out, "IntermediateOut": intermediate},
        attrs={
            "axis": axis,
            "scale": scale,
            "save_intermediate_out": save_intermediate_out,
            "functor_list": functor_list,
        },
    )
    return out


def fused_embedding_seq_pool(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    padding_idx: int | None = None,
    combiner: str = "sum",
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Rows of a table [size] looked up by `input` and summed over each sequence: [sequences, width]."""
    helper = LayerHelper("fused_embedding_seq_pool", param_attr=param_attr)
    table = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype, is_bias=False)
    out = helper.create_variable_for_type_inference(dtype)
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += size[0]
    helper.append_op(
        type="fused_embedding_seq_pool",
        inputs={"Ids": input, "W": table},
        outputs={"Out": out},
        attrs={"is_sparse": is_sparse, "combiner": combiner, "padding_idx": padding_idx},
    )
    return out


# ---------------------------------------------------------------------- text matching
def match_matrix_tensor(
    x: Variable,
    y: Variable,
    channel_num: int,
    act: str | None = None,
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """x W_c y' for each of `channel_num` channels and each pair of rows of two sequences; gives that, channel
    by channel as a column, and x W.
    """
    helper = LayerHelper("match_matrix_tensor", act=act, param_attr=param_attr, name=name)
    if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(
            f"match_matrix_tensor takes rows of one width, but x has shape {list(x.shape)} and y "
            f"{list(y.shape)}"
        )
    shape = [x.shape[1], channel_num, y.shape[1]]
    w = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=dtype, is_bias=False)
    out = helper.create_variable_for_type_inference(dtype)
    product = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op(
        type="match_matrix_tensor",
        inputs={"X": x, "Y": y, "W": w},
        outputs={"Out": out, "Tmp": product},
        attrs={"dim_t": channel_num},
    )
    return helper.append_activation(out), product


def var_conv_2d(
    input: Variable,
    row: Variable,
    col: Variable,
    input_channel: int,
    output_channel: int,
    filter_size: Any,
    stride: Any = 1,
    param_attr: Any = None,
    act: str | None = None,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Variable:
    """A convolution over images of differing sizes: image i is the sequence i of `input`, [channels, height,
    width] as a column, and as high and wide as the sequences i of `row` and `col` are long.

    The result is laid out as the input; its borders are padded, so that stride 1 keeps the size.
    """
    helper = LayerHelper("var_conv_2d", param_attr=param_attr, act=act, name=name)
    kernel, step = _pair(filter_size, "filter_size"), _pair(stride, "stride")
    shape = [int(output_channel), int(input_channel) * kernel[0] * kernel[1]]
    w = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=dtype)
    out = helper.create_variable_for_type_inference(dtype)
    unfolded = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op(
        type="var_conv_2d",
        inputs={"X": input, "ROW": row, "COLUMN": col, "W": w},
        outputs={"Out": out, "Col": unfolded},
        attrs={
            "InputChannel": input_channel,
            "OutputChannel": output_channel,
            "StrideH": step[0],
            "StrideW": step[1],
            "KernelH": kernel[0],
            "KernelW": kernel[1],
        },
    )
    return helper.append_activation(out)


def _pair(value: Any, name: str) -> list[int]:
    """A size of two dimensions from a number, or from two."""
    if isinstance(value, int):
        return [value, value]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError(f"The {name}'s type must be list or tuple. Received: {value}")
    return list(value)


def sequence_topk_avg_pooling(
    input: Variable, row: Variable, col: Variable, topks: Sequence[int], channel_num: int
) -> Variable:
    """For each row of each image (laid out as in `var_conv_2d`) and each k of `topks`, the mean of its k
    largest numbers in each channel: [rows, channel_num * len(topks)].
    """
    helper = LayerHelper("sequence_topk_avg_pooling")
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    positions = helper.create_variable_for_type_inference(dtype=input.dtype, stop_gradient=True)
    helper.append_op(
        type="sequence_topk_avg_pooling",
        inputs={"X": input, "ROW": row, "COLUMN": col},
        outputs={"Out": out, "pos": positions},
        attrs={"topks": topks, "channel_num": channel_num},
    )
    return out


def search_pyramid_hash(
    input: Variable,
    num_emb: int,
    space_len: int,
    pyramid_layer: int,
    rand_len: int,
    drop_out_percent: float,
    is_training: bool,
    use_filter: bool,
    white_list_len: int,
    black_list_len: int,
    seed: int,
    lr: float,
    param_attr: Any = None,
    param_attr_wl: Any = None,
    param_attr_bl: Any = None,
    name: str | None = None,
    distribute_update_vars: Sequence[str] | None = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Embeddings [windows, num_emb] of all windows of 2 to `pyramid_layer` words of each sequence.

    A window's embedding is put together from `num_emb` / `rand_len` pieces of a table of `space_len` +
    `rand_len` numbers, at places that are hashes of the window; the op itself trains the table, with the
    rate `lr`. While `is_training` a part `drop_out_percent` of the windows is left out; with `use_filter`
    those that the white list (a Bloom filter) does not know, and those that the black list knows.
    """
    helper = LayerHelper("search_pyramid_hash", name=name, param_attr=param_attr)
    attrs = [param_attr, param_attr_wl, param_attr_bl]
    sizes = {"W": space_len + rand_len, "WhiteList": white_list_len, "BlackList": black_list_len}
    options = {
        "num_emb": num_emb,
        "space_len": space_len,
        "pyramid_layer": pyramid_layer,
        "rand_len": rand_len,
        "drop_out_percent": drop_out_percent,
        "is_training": int(is_training),
        "use_filter": use_filter,
        "white_list_len": white_list_len,
        "black_list_len": black_list_len,
        "seed": seed,
        "lr": lr,
        "distribute_update_vars": _updated_elsewhere(distribute_update_vars, attrs),
    }
    return _hashed(helper, input, zip(sizes.items(), attrs, strict=True), options, dtype)


def _hashed(
    helper: LayerHelper, input: Variable, tables: Any, options: dict[str, Any], dtype: Any
) -> Variable:
    """The op with its tables, ((slot, length), attribute) each, which no optimizer trains."""
    inputs = {"X": input}
    for (slot, length), attr in tables:
        if length > 0:
            inputs[slot] = helper.create_parameter(attr=attr, shape=[length, 1], dtype=dtype)
            inputs[slot].stop_gradient = True
    out, kept, windows = (helper.create_variable_for_type_inference(dtype) for _ in range(3))
    outputs = {"Out": out, "X_Temp_Out": windows, "DropPos": kept}
    helper.append_op(type="pyramid_hash", inputs=inputs, outputs=outputs, attrs=options)
    return out


def _updated_elsewhere(names: Sequence[str] | None, attrs: Any) -> str:
    """Names of the tables that servers keep, with commas between them; each has to be one of the layer's."""
    own = [attr.name for attr in attrs if attr is not None and attr.name]
    for name in names or ():
        if name not in own:
            raise ValueError(f"Pyramid Hash layer didn't have parameter {name}")
    return ",".join(names or ())


# ---------------------------------------------------------------------- trees
def tree_conv(
    nodes_vector: Variable,
    edge_set: Variable,
    output_size: int,
    num_filters: int = 1,
    max_depth: int = 2,
    act: str | None = "tanh",
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """A convolution over trees (Mou et al., 2016): [batch, nodes, output_size, num_filters] from nodes
    [batch, nodes, width] and edges [batch, edges, 2], which count nodes from 1; zeros end the edges.

    Each node is combined with what lies up to `max_depth` - 1 levels below it.
    """
    check_type(nodes_vector, "nodes_vector", Variable, "tree_conv")
    check_type(edge_set, "edge_set", Variable, "tree_conv")
    helper = LayerHelper("tree_conv", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    dtype = nodes_vector.dtype
    shape = [nodes_vector.shape[2], 3, output_size, num_filters]
    w = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=dtype, is_bias=False)
    out = helper.create_variable_for_type_inference(dtype=dtype)
    helper.append_op(
        type="tree_conv",
        inputs={"NodesVector": nodes_vector, "EdgeSet": edge_set, "Filter": w},
        outputs={"Out": out},
        attrs={"max_depth": max_depth},
    )
    return helper.append_activation(helper.append_bias_op(out) if helper.bias_attr else out)


def tdm_child(
    x: Variable, node_nums: int, child_nums: int, param_attr: Any = None, dtype: DTypeLike = "int32"
) -> tuple[Variable, Variable]:
    """The children of tree nodes `x`, [..., child_nums] with 0 where there is none, and a mask of the leaves
    among them.

    The tree is a parameter [node_nums, 3 + child_nums]: item, layer, parent and children of each node.
    """
    helper = LayerHelper("tdm_child")
    check_dtype(dtype, "dtype", ["int32", "int64"], "fluid.contrib.layers.tdm_child")
    info = helper.create_parameter(
        attr=param_attr, shape=[node_nums, 3 + child_nums], dtype=dtype, default_initializer=Constant(0)
    )
    info.stop_gradient = True
    child, mask = (helper.create_variable_for_type_inference(dtype=dtype) for _ in range(2))
    helper.append_op(
        type="tdm_child",
        inputs={"X": x, "TreeInfo": info},
        outputs={"Child": child, "LeafMask": mask},
        attrs={"child_nums": child_nums, "dtype": int(to_vartype(dtype))},
        stop_gradient=True,
    )
    return child, mask


def tdm_sampler(
    x: Variable,
    neg_samples_num_list: Sequence[int],
    layer_node_num_list: Sequence[int],
    leaf_node_num: int,
    tree_travel_attr: Any = None,
    tree_layer_attr: Any = None,
    output_positive: bool = True,
    output_list: bool = True,
    seed: int = 0,
    tree_dtype: DTypeLike = "int32",
    dtype: DTypeLike = "int32",
) -> tuple[Any, Any, Any]:
    """For each leaf of `x` [batch, 1] the node above it in each layer of the tree, and nodes of the layer
    drawn at random: (nodes, labels, mask), with `output_list` a list of [batch, nodes of the layer, 1] each.

    Labels are 1 for nodes above the leaf; the mask is 0 where a leaf's path is shorter than the tree.

    Parameters
    ----------
    neg_samples_num_list, layer_node_num_list: by layer, how many nodes to draw, and how many there are.
    tree_travel_attr, tree_layer_attr: the parameters [leaf_node_num, layers], paths of the leaves, and
        [nodes, 1], the nodes layer by layer.
    """
    helper = LayerHelper("tdm_sampler")
    for value, what in ((tree_dtype, "tree_dtype"), (dtype, "dtype")):
        check_dtype(value, what, ["int32", "int64"], "fluid.contrib.layers.tdm_sampler")
    _check_layers(neg_samples_num_list, layer_node_num_list)
    offsets = np.cumsum([0, *layer_node_num_list]).tolist()
    shapes = [leaf_node_num, len(layer_node_num_list)], [offsets[-1], 1]
    travel, layer = (
        helper.create_parameter(attr=attr, shape=shape, dtype=tree_dtype, default_initializer=Constant(0))
        for attr, shape in zip((tree_travel_attr, tree_layer_attr), shapes, strict=True)
    )
    found = temporaries(helper, 3, dtype, stop_gradient=True)
    helper.append_op(
        type="tdm_sampler",
        inputs={"X": x, "Travel": travel, "Layer": layer},
        outputs=dict(zip(("Out", "Labels", "Mask"), found, strict=True)),
        attrs={
            "neg_samples_num_list": list(neg_samples_num_list),
            "output_positive": output_positive,
            "layer_offset_lod": offsets,
            "seed": seed,
            "dtype": int(to_vartype(dtype)),
        },
    )
    if not output_list:
        return found[0], found[1], found[2]
    return _by_layer(found, [count + output_positive for count in neg_samples_num_list])


def _check_layers(negatives: Sequence[int], nodes: Sequence[int]) -> None:
    if len(negatives) != len(nodes):
        raise ValueError(
            "The shape of negative samples list must match the shape of layers. But received len of "
            f"neg_samples_num_list: {len(negatives)},and len of layer_node_num_list: {len(nodes)}, please "
            "check your input."
        )
    for layer, (drawn, there) in enumerate(zip(negatives, nodes, strict=True)):
        if drawn >= there:
            raise ValueError(
                "The number of negative samples must be less than the number of nodes in the layer "
                f"{layer}, But received negative nums {drawn}, and num of node at layer {layer} is {there}, "
                "please check your input."
            )


def _by_layer(vars: list[Variable], counts: list[int]) -> tuple[Any, Any, Any]:
    """[batch, all layers] -> [batch, nodes of the layer, 1] for each variable and layer."""
    ends = np.cumsum(counts).tolist()
    found: tuple[list[Variable], list[Variable], list[Variable]] = ([], [], [])
    for count, end in zip(counts, ends, strict=True):
        parts = [slice(var, axes=[1], starts=[end - count], ends=[end]) for var in vars]
        for part, layers in zip(parts, found, strict=True):
            shaped = reshape(part, [-1, count, 1])
            shaped.stop_gradient = True
            layers.append(shaped)
    return found


# ---------------------------------------------------------------------- click-through models
def partial_concat(input: Any, start_index: int = 0, length: int = -1) -> Variable:
    """Columns start_index to start_index + length (to the end for -1) of several matrices, side by side."""
    return _of_columns("partial_concat", input, start_index, length)


def partial_sum(input: Any, start_index: int = 0, length: int = -1) -> Variable:
    """The sum of the columns start_index to start_index + length (to the end for -1) of several matrices."""
    return _of_columns("partial_sum", input, start_index, length)


def _of_columns(op: str, input: Any, start_index: int, length: int) -> Variable:
    inputs = input if isinstance(input, list) else [input]
    for number, var in enumerate(inputs):
        check_variable_and_dtype(var, f"input[{number}]", _NUMBERS, op)
    attrs = {"start_index": start_index, "length": length}
    return one_op(op, {"X": inputs}, attrs, dtype=inputs[0].dtype)


def rank_attention(
    input: Variable,
    rank_offset: Variable,
    rank_param_shape: Sequence[int],
    rank_param_attr: Any,
    max_rank: int = 3,
    max_size: int = 0,
) -> Variable:
    """Attention by position: each sample adds up, over the samples of its page view, their `input` times the
    matrix of the pair of ranks.

    `rank_offset` [batch, 1 + 2 * max_rank] of int32 has the sample's rank, then rank and row of each sample
    of its page view (0, and any row, where there are fewer); `rank_param_shape` is [width * max_rank^2, out].
    `max_size`, an argument of 2.x, is the size of a buffer on GPUs: it changes nothing here.
    """
    helper = LayerHelper("rank_attention")
    dtype = input.dtype
    param = helper.create_parameter(attr=rank_param_attr, shape=rank_param_shape, dtype=dtype)
    param.stop_gradient = False
    out = helper.create_variable_for_type_inference(dtype)
    helper.create_variable_for_type_inference(
        dtype, stop_gradient=True
    )  # fluid declares it, and never uses it
    helper.append_op(
        type="rank_attention",
        inputs={"X": input, "RankOffset": rank_offset, "RankParam": param},
        outputs={"Out": out},
        attrs={"MaxRank": max_rank, **({"MaxSize": max_size} if max_size else {})},
    )
    return out


def shuffle_batch(x: Variable, seed: int | Variable | None = None) -> Variable:
    """The rows of `x` (all dimensions but the last) in a random order, another one in each run.

    `seed` starts the first run's: a number, a variable that holds it and gets the next one, or by default
    the program's seed.
    """
    helper = LayerHelper("shuffle_batch")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    order = helper.create_variable_for_type_inference(dtype="int64")
    if seed is None:
        # numpy's own generator, as in fluid: scripts seed it to have their programs again
        seed = helper.main_program.random_seed or int(np.random.randint(-65536, 65535))
    attrs = {"startup_seed": seed if isinstance(seed, int) else 0}
    if isinstance(seed, int):
        seed = helper.create_variable(
            name=unique_name.generate("shuffle_batch_seed"), dtype="int64", persistable=True, shape=[0]
        )
    helper.append_op(
        type="shuffle_batch",
        inputs={"X": x, "Seed": seed},
        outputs={"Out": out, "ShuffleIdx": order, "SeedOut": seed},
        attrs=attrs,
    )
    return out


def index_sample(x: Variable, index: Variable) -> Variable:
    """out[i, j] = x[i, index[i, j]]: numbers of each row by their columns."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "index_sample")
    check_variable_and_dtype(index, "index", ["int32", "int64"], "index_sample")
    return one_op("index_sample", {"X": x, "Index": index}, dtype=x.dtype)


def sparse_embedding(
    input: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: Any = None,
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """A look-up in a table that parameter servers keep: `embedding` with sparse gradients, which processes
    ask for the rows that they need.

    `is_test` and `entry` (which rows a server takes in) are read by the servers of later versions only.
    """
    check_variable_and_dtype(input, "input", ["int64"], "fluid.contrib.layers.sparse_embedding")
    check_dtype(dtype, "dtype", ["float32"], "fluid.contrib.layers.sparse_embedding")
    helper = LayerHelper("sparse_embedding", param_attr=param_attr)
    table = helper.create_parameter(
        attr=helper.param_attr, shape=size, type=VarType.SELECTED_ROWS, dtype=dtype, is_bias=False
    )
    out = helper.create_variable_for_type_inference(dtype)
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += size[0]
    helper.append_op(
        type="lookup_table",
        inputs={"Ids": input, "W": table},
        outputs={"Out": out},
        attrs={
            "padding_idx": padding_idx,
            "is_sparse": True,
            "is_distributed": True,
            "remote_prefetch": True,
        },
    )
    return out
