"""Programs whose gradient ops are compared with those of PaddlePaddle 1.8.5, and how to write them down.

The same functions build under both: `fluid` comes in as an argument. From the folder `tests`, with the Python
that has PaddlePaddle 1.8.5, `python backward_cases.py` writes `backward_expected.json`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

CASES: dict[str, Any] = {}  # name -> function of `fluid` and a Builder
FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "backward_expected.json")


def case(function: Any) -> Any:
    CASES[function.__name__] = function
    return function


class Builder:
    """Ops by type, without layers: `b.op("mul", X=x, Y=w)` gives the variable in Out."""

    def __init__(self, program: Any) -> None:
        self.block = program.global_block()
        self.count = 0

    def data(self, name: str, shape: list[int], dtype: str = "float32", stop: bool = True) -> Any:
        return self.block.create_var(name=name, shape=shape, dtype=dtype, is_data=True, stop_gradient=stop)

    def param(self, name: str, shape: list[int], **kwargs: Any) -> Any:
        return self.block.create_parameter(name=name, shape=shape, dtype="float32", **kwargs)

    def var(self, dtype: str = "float32") -> Any:
        self.count += 1
        return self.block.create_var(name=f"v{self.count}", dtype=dtype)

    def op(self, kind: str, attrs: Any = None, out: Any = None, slot: str = "Out", **inputs: Any) -> Any:
        out = self.var() if out is None else out
        given = {name: value if isinstance(value, list) else [value] for name, value in inputs.items()}
        self.block.append_op(
            type=kind,
            inputs=given,
            outputs={slot: out if isinstance(out, list) else [out]},
            attrs=attrs or {},
        )
        return out

    def fc(self, x: Any, w: Any) -> Any:
        return self.op("relu", X=self.op("mul", X=x, Y=w))


def show_op(op: Any) -> str:
    def slots(names: Any, get: Any) -> str:
        return " ".join(f"{name}={','.join(get(name))}" for name in sorted(names) if get(name))

    role = [op.attr("op_role")] + (list(op.attr("op_role_var")) if op.has_attr("op_role_var") else [])
    inputs, outputs = slots(op.input_names, op.input), slots(op.output_names, op.output)
    return f"{op.type} | {inputs} | {outputs} | {' '.join(map(str, role))}"


def show_var(var: Any) -> str:
    kind, dtype = (str(value).split(".")[-1] for value in (var.type, var.dtype))
    return f"{var.name} {kind} {dtype} {list(var.shape)}"


def show(program: Any) -> list[str]:
    """The ops and the gradient variables of the blocks that run."""
    reached, lines = [0], []
    for index in reached:
        block = program.block(index)
        for op in block.ops:
            lines.append(f"{index}: {show_op(op)}")
            if op.has_attr("sub_block"):
                reached.append(op._block_attr_id("sub_block"))
        lines += [
            f"{index}: {show_var(var)}"
            for var in sorted(block.vars.values(), key=lambda var: var.name)
            if "@GRAD" in var.name
        ]
    return lines


def build(fluid: Any, name: str) -> list[str]:
    """Lines of the case's program, and the names that it returns."""
    main = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
        found = CASES[name](fluid, Builder(main))
    names = [[None if var is None else var.name for var in pair] for pair in found]
    return show(main) + [json.dumps(names)]


def both(found: Any) -> Any:
    """Gradients alone, in the form of pairs."""
    return [(var, None) for var in found]


# ------------------------------------------------------------------------ one pass
@case
def chain(fluid: Any, b: Builder) -> Any:
    x, w = b.data("x", [4, 8]), b.param("w", [8, 8])
    return fluid.backward.append_backward(b.op("mean", X=b.fc(x, w)))


@case
def shared_parameter(fluid: Any, b: Builder) -> Any:
    x, w = b.data("x", [4, 8]), b.param("w", [8, 8])
    return fluid.backward.append_backward(b.op("mean", X=b.fc(b.fc(b.fc(x, w), w), w)))


@case
def branches(fluid: Any, b: Builder) -> Any:
    x, w, u = b.data("x", [4, 8]), b.param("w", [8, 8]), b.param("u", [8, 8])
    hub = b.fc(x, w)
    left, right = b.fc(hub, u), b.op("elementwise_add", X=b.fc(hub, u), Y=hub)
    joined = b.op("sum", X=[left, right, hub, hub])
    return fluid.backward.append_backward(b.op("mean", X=b.op("elementwise_mul", X=joined, Y=joined)))


@case
def same_input_twice(fluid: Any, b: Builder) -> Any:
    w = b.param("w", [4, 4])
    square = b.op("elementwise_mul", X=w, Y=w)
    return fluid.backward.append_backward(b.op("mean", X=b.op("elementwise_mul", X=square, Y=w)))


@case
def unused_outputs(fluid: Any, b: Builder) -> Any:
    x, w = b.data("x", [4, 6]), b.param("w", [6, 6])
    parts = b.op(
        "split", {"num": 3, "axis": 1, "sections": []}, out=[b.var(), b.var(), b.var()], X=b.fc(x, w)
    )
    b.op("relu", X=parts[2])
    return fluid.backward.append_backward(b.op("mean", X=parts[1]))


@case
def stopped_in_the_middle(fluid: Any, b: Builder) -> Any:
    x, w, u = b.data("x", [4, 8]), b.param("w", [8, 8]), b.param("u", [8, 8])
    first = b.fc(x, w)
    stopped = b.fc(first, u)
    stopped.stop_gradient = True
    last = b.op("elementwise_add", X=b.fc(stopped, u), Y=first)
    return fluid.backward.append_backward(b.op("mean", X=last))


@case
def everything_stopped(fluid: Any, b: Builder) -> Any:
    x = b.data("x", [4, 8])
    return fluid.backward.append_backward(b.op("mean", X=b.op("relu", X=x)))


def shared_table(fluid: Any, b: Builder, sparse: bool) -> Any:
    table, w = b.param("table", [50, 4]), b.param("w", [16, 8])
    words = [b.data(f"word{n}", [3, 1], "int64") for n in range(4)]
    found = [
        b.op("lookup_table", {"is_sparse": sparse, "padding_idx": -1}, W=table, Ids=word) for word in words
    ]
    return fluid.backward.append_backward(b.op("mean", X=b.fc(b.op("concat", {"axis": 1}, X=found), w)))


@case
def dense_table(fluid: Any, b: Builder) -> Any:
    return shared_table(fluid, b, False)


@case
def sparse_table(fluid: Any, b: Builder) -> Any:
    return shared_table(fluid, b, True)


@case
def no_grad_set(fluid: Any, b: Builder) -> Any:
    x, w, u, v = b.data("x", [4, 8]), b.param("w", [8, 8]), b.param("u", [8, 8]), b.param("v", [8, 8])
    first = b.fc(x, w)
    blocked = b.fc(first, u)
    last = b.op("elementwise_add", X=blocked, Y=b.fc(first, v))
    return fluid.backward.append_backward(b.op("mean", X=last), no_grad_set={blocked.name, v})


@case
def parameter_list(fluid: Any, b: Builder) -> Any:
    x, w, u = b.data("x", [4, 8]), b.param("w", [8, 8]), b.param("u", [8, 8])
    b.param("unused", [2, 2])
    return fluid.backward.append_backward(
        b.op("mean", X=b.fc(b.fc(x, w), u)), parameter_list=["u", w, "unused"]
    )


@case
def untrainable(fluid: Any, b: Builder) -> Any:
    x, w, u = b.data("x", [4, 8]), b.param("w", [8, 8], trainable=False), b.param("u", [8, 8])
    return fluid.backward.append_backward(b.op("mean", X=b.fc(b.fc(x, w), u)))


@case
def loss_used_again(fluid: Any, b: Builder) -> Any:
    x, w = b.data("x", [4, 8]), b.param("w", [8, 8])
    loss = b.op("mean", X=b.fc(x, w))
    b.op("scale", {"scale": 2.0}, X=loss)
    return fluid.backward.append_backward(loss)


@case
def callbacks(fluid: Any, b: Builder) -> Any:
    x, w = b.data("x", [4, 8]), b.param("w", [8, 8])
    loss = b.op("mean", X=b.fc(x, w))
    seen: list[Any] = []

    def remember(block: Any, context: Any) -> None:
        names = sorted(key + ":" + value for key, value in context.items() if key != "__current_op_desc__")
        desc = context["__current_op_desc__"]
        seen.append((desc.type(), desc.output_arg_names(), names))

    fluid.backward.append_backward(loss, callbacks=[remember])
    return [(type("Name", (), {"name": json.dumps(item)}), None) for item in seen]


# ------------------------------------------------------------------------ several passes
@case
def twice(fluid: Any, b: Builder) -> Any:
    x, w = b.data("x", [4, 8]), b.param("w", [8, 8])
    loss = b.op("mean", X=b.fc(b.fc(x, w), w))
    return fluid.backward.append_backward(loss) + fluid.backward.append_backward(loss)


@case
def two_losses(fluid: Any, b: Builder) -> Any:
    x, w, u = b.data("x", [4, 8]), b.param("w", [8, 8]), b.param("u", [8, 8])
    first = b.fc(x, w)
    one, two = b.op("mean", X=b.fc(first, u)), b.op("mean", X=first)
    return fluid.backward.append_backward(one) + fluid.backward.append_backward(two, parameter_list=["w"])


@case
def double(fluid: Any, b: Builder) -> Any:
    x = b.data("x", [4, 4], stop=False)
    y = b.op("elementwise_mul", X=x, Y=x)
    first = fluid.gradients(y, x)
    return both(first + fluid.gradients(first[0], x))


@case
def double_with_more(fluid: Any, b: Builder) -> Any:
    x = b.data("x", [4, 4], stop=False)
    y = b.op("elementwise_mul", X=x, Y=x)
    slope = fluid.gradients(y, x)[0]
    z = b.op("elementwise_add", X=slope, Y=b.op("elementwise_mul", X=y, Y=y))
    return both(fluid.gradients(z, x))


@case
def penalty(fluid: Any, b: Builder) -> Any:
    x, w, u = b.data("x", [4, 8], stop=False), b.param("w", [8, 8]), b.param("u", [8, 1])
    out = b.op("mul", X=b.op("square", X=b.op("mul", X=x, Y=w)), Y=u)
    slope = fluid.gradients([out], [x])[0]
    norm = b.op("mean", X=b.op("square", X=slope))
    return fluid.backward.append_backward(b.op("elementwise_add", X=norm, Y=b.op("mean", X=out)))


# ------------------------------------------------------------------------ gradients of anything
@case
def several_targets(fluid: Any, b: Builder) -> Any:
    x, y = b.data("x", [4, 4], stop=False), b.data("y", [4, 4], stop=False)
    inner = b.op("elementwise_mul", X=x, Y=y)
    first, second = b.op("relu", X=inner), b.op("square", X=b.op("elementwise_add", X=inner, Y=x))
    given = b.data("given", [4, 4])
    return both(fluid.gradients([first, second], [x, y, inner], target_gradients=[given, None]))


@case
def without_influence(fluid: Any, b: Builder) -> Any:
    x, y, z = (
        b.data("x", [4, 4], stop=False),
        b.data("y", [4, 4], stop=False),
        b.data("z", [4, 4], stop=False),
    )
    b.op("relu", X=y)
    return both(
        fluid.gradients([b.op("elementwise_add", X=b.op("relu", X=x), Y=z)], [x, y], no_grad_set={"z"})
    )


# ------------------------------------------------------------------------ checkpoints
@case
def checkpoints(fluid: Any, b: Builder) -> Any:
    x, ws = b.data("x", [4, 8]), [b.param(f"w{n}", [8, 8]) for n in range(5)]
    layers = [x]
    for w in ws:
        layers.append(b.fc(layers[-1], w))
    return fluid.backward.append_backward(b.op("mean", X=layers[-1]), checkpoints=[layers[2], layers[4]])


@case
def one_checkpoint(fluid: Any, b: Builder) -> Any:
    x, ws = b.data("x", [4, 8]), [b.param(f"w{n}", [8, 8]) for n in range(3)]
    first = b.fc(x, ws[0])
    last = b.op("elementwise_add", X=b.fc(b.fc(first, ws[1]), ws[2]), Y=first)
    return fluid.backward.append_backward(b.op("mean", X=last), checkpoints=[first])


@case
def checkpoints_with_dropout(fluid: Any, b: Builder) -> Any:
    x, ws = b.data("x", [4, 8]), [b.param(f"w{n}", [8, 8]) for n in range(3)]
    layers = [x]
    for w in ws:
        hidden, mask = b.fc(layers[-1], w), b.var("uint8")
        dropped = b.var()
        b.block.append_op(
            type="dropout",
            inputs={"X": [hidden]},
            outputs={"Out": [dropped], "Mask": [mask]},
            attrs={"dropout_prob": 0.5, "is_test": False, "fix_seed": False, "seed": 0},
        )
        layers.append(dropped)
    return fluid.backward.append_backward(b.op("mean", X=layers[-1]), checkpoints=layers[1:3])


# ------------------------------------------------------------------------ gradients of gradients
def critic(layers: Any, x: Any) -> Any:
    """A score for each image; its parameters have names, so that several calls share them."""
    h = layers.conv2d(x, 4, 3, stride=2, padding=1, param_attr="critic_c", bias_attr="critic_cb")
    h = layers.leaky_relu(h, 0.1)
    h = layers.leaky_relu(layers.fc(h, 6, param_attr="critic_f", bias_attr="critic_fb"), 0.1)
    return layers.fc(h, 1, param_attr="critic_g", bias_attr="critic_gb")


def penalised(fluid: Any, fixed: bool) -> Any:
    """A Wasserstein critic with a gradient penalty, whose parameters are `fixed` while the slope is taken."""
    layers = fluid.layers
    real, noise = fluid.data("real", [4, 3, 8, 8]), fluid.data("noise", [4, 3, 8, 8])
    fake = layers.tanh(layers.conv2d(noise, 3, 3, padding=1, param_attr="maker", bias_attr="maker_b"))
    score = layers.reduce_mean(critic(layers, fake)) - layers.reduce_mean(critic(layers, real))
    shift = layers.elementwise_mul(fake - real, layers.fill_constant([4], "float32", 0.3), axis=0)
    between = layers.elementwise_add(real, shift, axis=0)
    names = [f"critic_{name}" for name in ("c", "cb", "f", "fb", "g", "gb")]
    (slope,) = fluid.gradients(critic(layers, between), between, no_grad_set=set(names) if fixed else None)
    norm = layers.sqrt(layers.reduce_sum(layers.square(layers.reshape(slope, [-1, 192])), dim=1) + 1e-16)
    loss = score + 10.0 * layers.reduce_mean(layers.square(norm - 1.0))
    return fluid.backward.append_backward(loss, parameter_list=names)


@case
def penalty_of_images(fluid: Any, b: Builder) -> Any:
    return penalised(fluid, False)


@case
def penalty_of_fixed_parameters(fluid: Any, b: Builder) -> Any:
    # nothing goes back through the critic a second time: its slope does not depend on its biases
    return penalised(fluid, True)


def half(fluid: Any, product: Any, kept: str) -> Any:
    """The first gradient is that of one operand alone; the second one that of both."""
    given = {name: fluid.data(name, [3, 3]) for name in ("x", "y")}
    for var in given.values():
        var.stop_gradient = False
    other = {name for name in given if name != kept}
    (first,) = fluid.gradients(product(given["x"], given["y"]), given[kept], no_grad_set=other)
    found = fluid.gradients(fluid.layers.reduce_sum(fluid.layers.square(first)), list(given.values()))
    return both(found)


@case
def half_of_a_product(fluid: Any, b: Builder) -> Any:
    return half(fluid, lambda x, y: b.op("mul", X=x, Y=y), "x")


@case
def other_half_of_a_product(fluid: Any, b: Builder) -> Any:
    return half(fluid, lambda x, y: b.op("mul", X=x, Y=y), "y")


@case
def half_of_products_of_elements(fluid: Any, b: Builder) -> Any:
    return half(fluid, lambda x, y: b.op("elementwise_mul", X=x, Y=y), "y")


def main() -> None:
    import paddle.fluid as fluid

    found = {}
    for name in CASES:
        try:
            found[name] = build(fluid, name)
        except Exception as error:
            print(name, str(error).strip().split("\n")[-1], file=sys.stderr)
    with open(FILE, "w") as target:
        json.dump(found, target, indent=0)
        target.write("\n")


if __name__ == "__main__":
    main()
