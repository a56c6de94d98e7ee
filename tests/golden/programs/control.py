"""Control flow: while with arrays, cond, case, switch_case, Switch, IfElse, with gradients where Paddle has
them.
"""

from typing import Any

from ..cases import Built, Run, case, fixed, floats, ids, train


@case
def while_array(fluid: Any) -> Built:
    """A While that reads and writes tensor arrays, with gradients through the loop into a parameter."""
    layers = fluid.layers
    steps = [fluid.data(name=f"d{n}", shape=[4], dtype="float32") for n in range(3)]
    counter = layers.zeros(shape=[1], dtype="int64")
    counter.stop_gradient = True
    start = layers.zeros(shape=[4], dtype="float32")
    memory = layers.array_write(x=start, i=counter)
    data = layers.array_write(x=steps[0], i=counter)
    for step in steps[1:]:
        counter = layers.increment(counter)
        layers.array_write(step, counter, array=data)
    counter, limit = layers.zeros(shape=[1], dtype="int64"), layers.fill_constant([1], "int64", 3)
    counter.stop_gradient = limit.stop_gradient = True
    weight = layers.create_parameter(shape=[4], dtype="float32", name="loop_w")
    going = layers.less_than(x=counter, y=limit)
    loop = layers.While(cond=going)
    with loop.block():
        read = layers.array_read(array=data, i=counter)
        previous = layers.array_read(array=memory, i=counter)
        result = layers.sums(input=[layers.elementwise_mul(read, weight), layers.scale(previous, scale=0.5)])
        counter = layers.increment(x=counter, in_place=True)
        layers.array_write(result, i=counter, array=memory)
        layers.less_than(x=counter, y=limit, cond=going)
    last = layers.array_read(array=memory, i=counter)
    loss = layers.mean(layers.square(last))
    fluid.optimizer.SGD(learning_rate=0.5).minimize(loss)
    return train(fluid, {f"d{n}": floats(4) for n in range(3)}, loss, last)


@case
def while_loop(fluid: Any) -> Built:
    """layers.while_loop over a counter and a state, no gradient."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[3, 4], dtype="float32")
    counter = layers.fill_constant(shape=[1], dtype="int64", value=0)
    limit = layers.fill_constant(shape=[1], dtype="int64", value=5)

    def going(number: Any, state: Any) -> Any:
        return layers.less_than(number, limit)

    def body(number: Any, state: Any) -> Any:
        return [layers.increment(number), layers.scale(layers.tanh(state), scale=1.5, bias=0.1)]

    counter, state = layers.while_loop(going, body, [counter, x])
    total = layers.reduce_sum(state)
    return Built([Run(fluid.default_main_program(), {"x": floats(3, 4)}, [total, state, counter])])


@case
def while_loop_gradient(fluid: Any) -> Built:
    """layers.while_loop with a trained layer before it and the same parameter inside the body."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[3, 4], dtype="float32")
    weight = layers.create_parameter(shape=[4, 4], dtype="float32", name="loop_w")
    state = layers.fc(x, size=4)
    counter = layers.fill_constant(shape=[1], dtype="int64", value=0)
    limit = layers.fill_constant(shape=[1], dtype="int64", value=3)

    def going(number: Any, hidden: Any) -> Any:
        return layers.less_than(number, limit)

    def body(number: Any, hidden: Any) -> Any:
        return [layers.increment(number), layers.tanh(layers.mul(hidden, weight))]

    counter, state = layers.while_loop(going, body, [counter, state])
    loss = layers.mean(layers.square(state))
    fluid.optimizer.SGD(learning_rate=0.5).minimize(loss)
    return train(fluid, {"x": floats(3, 4)}, loss, state, counter)


@case
def cond(fluid: Any) -> Built:
    """layers.cond whose branch depends on the data, with gradients into both branches' parameters."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[3, 4], dtype="float32")
    hidden = layers.fc(x, size=4)
    switch = layers.reduce_sum(x)
    zero = layers.fill_constant(shape=[1], dtype="float32", value=0.0)
    out = layers.cond(
        layers.less_than(switch, zero),
        lambda: layers.fc(hidden, size=2, act="tanh"),
        lambda: layers.scale(layers.fc(hidden, size=2), scale=2.0),
    )
    loss = layers.mean(layers.square(out))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"x": floats(3, 4)}, loss, out, switch)


@case
def nested_cond(fluid: Any) -> Built:
    """cond inside cond, several outputs, a variable of the outer block used by both branches."""
    layers = fluid.layers
    a = fluid.data(name="a", shape=[1], dtype="float32")
    b = fluid.data(name="b", shape=[1], dtype="float32")
    weight = layers.create_parameter(shape=[1], dtype="float32", name="cond_w")
    scaled = layers.elementwise_mul(a, weight)

    def inner() -> Any:
        return layers.cond(b < a, lambda: scaled * b, lambda: scaled - b)

    def outer_true() -> Any:
        return inner(), scaled + 1.0

    def outer_false() -> Any:
        return scaled * scaled, b * 2.0

    first, second = layers.cond(a < 0.1, outer_true, outer_false)
    loss = layers.mean(first * first + second)
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"a": floats(1), "b": floats(1)}, loss, first, second)


@case
def case_and_switch_case(fluid: Any) -> Built:
    layers = fluid.layers
    x = fluid.data(name="x", shape=[2, 3], dtype="float32")
    index = fluid.data(name="index", shape=[1], dtype="int64")
    total = layers.reduce_sum(x)
    low = layers.less_than(total, layers.fill_constant([1], "float32", -0.5))
    high = layers.greater_than(total, layers.fill_constant([1], "float32", 0.5))
    picked = layers.case(
        [(low, lambda: layers.scale(x, 2.0)), (high, lambda: layers.tanh(x))],
        default=lambda: layers.scale(x, -1.0),
    )
    switched = layers.switch_case(
        index,
        branch_fns={1: lambda: layers.exp(x), 3: lambda: layers.square(x)},
        default=lambda: layers.scale(x, 0.5),
    )
    fetch = [layers.reduce_sum(picked), picked, switched, low, high]
    return Built([Run(fluid.default_main_program(), {"x": floats(2, 3), "index": ids(1, below=5)}, fetch)])


@case
def switch_learning_rate(fluid: Any) -> Built:
    """A hand-written schedule: Switch over the step counter assigns the learning rate."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    loss = layers.mean(layers.square(layers.fc(x, size=2)))
    rate = layers.create_global_var(
        shape=[1], value=0.0, dtype="float32", persistable=True, name="learning_rate"
    )
    step = layers.autoincreased_step_counter(counter_name="@MY_COUNTER@", begin=1, step=2)
    now = layers.cast(step, "float32")
    with layers.Switch() as switch:
        with switch.case(now < layers.fill_constant([1], "float32", 6.0)):
            layers.assign(layers.fill_constant([1], "float32", 0.5), rate)
        with switch.case(now < layers.fill_constant([1], "float32", 12.0)):
            layers.assign(layers.scale(now, 0.01), rate)
        with switch.default():
            layers.assign(layers.fill_constant([1], "float32", 0.01), rate)
    fluid.optimizer.SGD(learning_rate=rate).minimize(loss)
    return train(fluid, {"x": floats(3, 4)}, loss, rate, step)


@case
def if_else(fluid: Any) -> Built:
    """IfElse: rows are split by a mask, go through different layers and are merged again."""
    layers = fluid.layers
    x = fluid.layers.data(name="x", shape=[4], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    limit = layers.fill_constant_batch_size_like(input=label, dtype="int64", shape=[-1, 1], value=2)
    choice = layers.IfElse(layers.less_than(x=label, y=limit))
    with choice.true_block():
        choice.output(layers.fc(choice.input(x), size=3, act="tanh"))
    with choice.false_block():
        choice.output(layers.fc(choice.input(x), size=3))
    merged = choice()[0]
    predicted = layers.softmax(merged)
    loss = layers.mean(layers.cross_entropy(input=predicted, label=label))
    fluid.optimizer.SGD(learning_rate=0.2).minimize(loss)
    return train(fluid, {"x": floats(5, 4), "label": ids(5, 1, below=3)}, loss, merged)


@case
def tensor_array(fluid: Any) -> Built:
    """Arrays outside loops: length, stacking, concatenation."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[2, 3], dtype="float32")
    array = layers.create_array("float32")
    for number in range(3):
        index = layers.fill_constant(shape=[1], dtype="int64", value=number)
        layers.array_write(layers.scale(x, float(number + 1)), i=index, array=array)
    length = layers.array_length(array)
    joined, sizes = layers.tensor_array_to_tensor(array, axis=1)
    stacked, _ = layers.tensor_array_to_tensor(array, axis=0, use_stack=True)
    empty = layers.is_empty(x)
    fetch = [layers.reduce_sum(joined), length, joined, sizes, stacked, empty]
    return Built([Run(fluid.default_main_program(), {"x": floats(2, 3)}, fetch)])


@case
def two_optimizer_steps(fluid: Any) -> Built:
    """Feeding fixed data and cloning: the clone for testing sees the trained parameters."""
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    out = fluid.layers.fc(x, size=3, act="sigmoid")
    loss = fluid.layers.mean(out)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(learning_rate=1.0).minimize(loss)
    feeds = {"x": fixed([[1.0, -2.0, 0.5, 0.0], [0.1, 0.2, 0.3, 0.4]])}
    return Built([Run(fluid.default_main_program(), feeds, [loss]), Run(test, feeds, [loss, out])])
