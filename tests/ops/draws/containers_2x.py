"""Containers of layers, changes of their parameters, and what is not called like a function."""

from __future__ import annotations

from typing import Any

from beside.draw import Draw, draws
from ops.draws.common_2x import FLOATS, REAL, word


@draws("paddle.nn.Sequential", "paddle.nn.LayerList", "paddle.nn.LayerDict")
def _(draw: Draw, name: str) -> Any:
    sizes = [draw.int(1, 3) for _ in range(3)]
    layers = [
        draw.call("paddle.nn.Linear", sizes[0], sizes[1]),
        draw.call(f"paddle.nn.{draw.choice('ReLU', 'Tanh', 'Sigmoid')}"),
        draw.call("paddle.nn.Linear", sizes[1], sizes[2]),
    ]
    x = draw.tensor((draw.size(), sizes[0]), "float32")
    if word(name) == "Sequential":
        named = [(f"part{at}", layer) for at, layer in enumerate(layers)]
        return draw.call(draw.call(name, *draw.choice(layers, named)).name, x)
    named = {f"part{at}": layer for at, layer in enumerate(layers)}
    held = draw.call(name, layers if word(name) == "LayerList" else named)
    for at, key in enumerate(named):
        part = draw.call("op.getitem", held, at if word(name) == "LayerList" else key)
        x = draw.call(part.name, x)
    return x


@draws("paddle.nn.ParameterList")
def _(draw: Draw, name: str) -> Any:
    shape = list(draw.shape((1, 2), low=1))
    given = [draw.call("paddle.create_parameter", shape, "float32") for _ in range(2)]
    held = draw.call(name, given)
    parts = [draw.call("op.getitem", held, at) for at in range(2)]
    return draw.call("paddle.add", *parts)


@draws("paddle.nn.PReLU")
def _(draw: Draw, name: str) -> Any:
    rank = draw.int(3, 5)
    layout = draw.choice(*{3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[rank])
    x = draw.tensor(draw.shape(rank, low=1), "float32", known=True)
    assert x.shape is not None
    channels = x.shape[-1 if layout[-1] == "C" else 1]
    count = draw.choice(1, channels)
    layer = draw.call(name, count, init=draw.maybe(0.1), weight_attr=draw.attr(), data_format=layout)
    return draw.call(layer.name, x)


@draws("paddle.nn.utils.weight_norm", "paddle.nn.utils.remove_weight_norm")
def _(draw: Draw, name: str) -> Any:
    wide = draw.int(1, 3)
    layer = draw.call("paddle.nn.Linear", wide, draw.int(1, 3))
    draw.call("paddle.nn.utils.weight_norm", layer, dim=draw.choice(None, 0, 1))
    if word(name) == "remove_weight_norm":
        draw.call(name, layer)
    return draw.call(layer.name, draw.tensor((draw.size(), wide), "float32"))


@draws("paddle.incubate.LookAhead", "paddle.incubate.ModelAverage")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    wide = draw.int(1, 3)
    layer = draw.call("paddle.nn.Linear", wide, 1)
    loss = draw.call("paddle.mean", draw.call(layer.name, draw.tensor((2, wide), "float32")))
    optimizer = draw.call("paddle.optimizer.SGD", 0.5)
    if word(name) == "LookAhead":
        outer = draw.call(name, optimizer, alpha=draw.maybe(0.2), k=draw.int(1, 3))
        draw.call(f"{outer.name}.minimize", loss)
        return loss
    draw.call(f"{optimizer.name}.minimize", loss)
    parameters = draw.call(f"{layer.name}.parameters")
    draw.call(name, 0.2, parameters=parameters, min_average_window=1, max_average_window=draw.int(2, 9))
    return loss


@draws("paddle.nn.initializer.set_global_initializer")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    given = draw.choice("Constant", "XavierNormal", "Uniform")
    draw.call(name, draw.made(f"paddle.nn.initializer.{given}"))
    layer = draw.call("paddle.nn.Linear", 2, 3)
    draw.call(name, None)
    return draw.call(layer.name, draw.tensor((2, 2), "float32"))


@draws("paddle.static.Print")
def _(draw: Draw, name: str) -> Any:
    words = ("tensor_name", "tensor_type", "tensor_shape", "tensor_layout", "tensor_lod")
    more = {f"print_{word}": draw.maybe(draw.flag(), 0.2) for word in words}
    more["print_phase"] = draw.maybe(draw.choice("forward", "backward", "both"), 0.3)
    more |= {"message": draw.maybe("here"), "first_n": draw.maybe(1), "summarize": draw.maybe(2, 0.3)}
    return draw.call(name, draw.tensor(dtype=REAL, rank=(0, 3)), **more)


@draws("paddle.static.py_func", "paddle.static.nn.py_func")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 3))
    program = draw.call("paddle.static.default_main_program")
    block = draw.call(f"{program.name}.current_block")
    out = draw.call(f"{block.name}.create_var", name="given", shape=list(x.shape or ()), dtype=x.dtype)
    draw.gradients = False
    change = draw.block(["a"], lambda a: draw.call(draw.choice("np.tanh", "np.square", "np.abs"), a))
    draw.call(name, change, x, out)
    return out


# ---------------------------------------------------------------------- of Variables
@draws("paddle.Tensor.T", "paddle.Tensor.ndim", "paddle.Tensor.shape")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(1, 4))
    getter = draw.call("op.attrgetter", word(name))
    found = draw.call(getter.name, x)
    return found if word(name) == "T" else draw.call("paddle.full", [1], draw.call("np.prod", found), "int64")


@draws("paddle.Tensor.detach", "paddle.Tensor.ndimension", "paddle.Tensor.is_complex")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(0, 4))
    found = draw.call(name, x)
    return found if word(name) == "detach" else draw.call("paddle.full", [1], found, "int64")


@draws("paddle.Tensor.is_integer", "paddle.Tensor.is_floating_point", "paddle.Tensor.is_tensor")
def _(draw: Draw, name: str) -> Any:
    found = draw.call(name, draw.tensor(dtype=REAL, rank=(0, 4)))
    return draw.call("paddle.full", [1], found, "bool")


@draws("paddle.set_default_dtype", "paddle.get_default_dtype")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice("float32", "float64")
    draw.call("paddle.set_default_dtype", kind)
    found = [draw.call("paddle.ones", [2]), draw.call("paddle.full", [1], draw.real())]
    parameter = draw.call(draw.call("paddle.nn.Linear", 2, 2).name, draw.tensor((1, 2), kind))
    draw.call("paddle.set_default_dtype", "float32")
    return [*found, parameter]


@draws("paddle.Tensor.scatter_nd")
def _(draw: Draw, name: str) -> Any:
    index = draw.tensor((draw.size(), 1), "int64", 0, 3)
    return draw.call(name, index, draw.tensor(((index.shape or (1,))[0],), FLOATS), [4])
