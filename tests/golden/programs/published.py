"""Whole models in the manner of programs for 1.x: what their parts do together, in their spelling."""

from typing import Any

from ..cases import Built, case, fixed, floats, ids, train


@case
def shufflenet(fluid: Any) -> Built:
    """Channels shuffled by reshape and transpose, and by the op; depthwise convolutions; LARS."""
    layers = fluid.layers

    def normed(x: Any, filters: int, size: int, stride: int = 1, groups: int = 1, act: Any = "relu") -> Any:
        y = layers.conv2d(x, filters, size, stride, (size - 1) // 2, groups=groups, bias_attr=False)
        return layers.batch_norm(y, act=act)

    def tail(x: Any, filters: int, stride: int) -> Any:
        y = normed(x, filters, 1)
        return normed(normed(y, filters, 3, stride, filters, None), filters, 1)

    image = layers.data("image", [3, 8, 8])
    label = layers.data("label", [1], dtype="int64")
    stem = normed(image, 8, 3, 2)
    short = normed(normed(stem, 8, 3, 2, 8, None), 8, 1)
    down = layers.shuffle_channel(layers.concat([short, tail(stem, 8, 2)], 1), 4)
    kept, rest = layers.split(down, num_or_sections=[8, 8], dim=1)
    joined = layers.concat([kept, tail(rest, 8, 1)], axis=1)
    parts = layers.reshape(x=joined, shape=[0, 2, 8, 2, 2])
    mixed = layers.reshape(layers.transpose(parts, perm=[0, 2, 1, 3, 4]), shape=[0, 16, 2, 2])
    pooled = layers.squeeze(layers.adaptive_pool2d(mixed, [1, 1], "avg"), [2, 3])
    logits = layers.fc(layers.swish(pooled), 5)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    fluid.optimizer.LarsMomentum(0.1, 0.9).minimize(loss)
    return train(fluid, {"image": floats(4, 3, 8, 8), "label": ids(4, 1, below=5)}, loss, logits)


@case
def q_learning(fluid: Any) -> Built:
    """A network, its slowly copied twin behind stopped gradients, and the program that copies."""
    layers = fluid.layers

    def network(seen: Any, name: str) -> Any:
        hidden = layers.fc(seen, 8, act="relu", param_attr=name + "_w1", bias_attr=name + "_b1")
        return layers.fc(hidden, 3, param_attr=name + "_w2", bias_attr=name + "_b2")

    seen = layers.data("seen", [4])
    action = layers.data("action", [1], dtype="int32")
    reward = layers.data("reward", [], dtype="float32")
    later = layers.data("later", [4])
    over = layers.data("over", [], dtype="bool")
    values = network(seen, "policy")
    best = layers.reduce_max(network(later, "target"), dim=1)
    best.stop_gradient = True
    wanted = reward + (1.0 - layers.cast(over, "float32")) * 0.9 * best
    chosen = layers.elementwise_mul(layers.cast(layers.one_hot(action, 3), "float32"), values)
    loss = layers.reduce_mean(layers.square_error_cost(layers.reduce_sum(chosen, dim=1), wanted))
    fluid.optimizer.Adam(0.01, epsilon=1e-3).minimize(loss)
    feeds = {
        "seen": floats(5, 4),
        "action": ids(5, 1, below=3, dtype="int32"),
        "reward": floats(5),
        "later": floats(5, 4),
        "over": fixed([0, 1, 0, 0, 1], "bool"),
    }
    built = train(fluid, feeds, loss, values)
    built.steps.append(type(built.steps[0])(copying(fluid), {}, ["target_w1", "target_b2"]))
    return built


def copying(fluid: Any) -> Any:
    """The program that copies what the policy has learnt into the target."""
    known = fluid.default_startup_program().global_block()
    program = fluid.Program()
    block = program.global_block()
    with fluid.program_guard(program):
        for end in ("_w1", "_b1", "_w2", "_b2"):
            shape = known.var("policy" + end).shape
            source, target = (
                block.create_var(name=name + end, persistable=True, shape=shape, dtype="float32")
                for name in ("policy", "target")
            )
            fluid.layers.assign(source, target)
    return program


@case
def masked_words(fluid: Any) -> Built:
    """An encoder that finds masked words, its table turned round; a rate that a Switch sets; decay of the
    parameters as they were before the step.
    """
    layers = fluid.layers
    words = fluid.data("words", [None, 6, 1], "int64")
    mask = fluid.data("mask", [None, 6, 1])
    places = fluid.data("places", [None, 1], "int64")
    missing = fluid.data("missing", [None, 1], "int64")

    def split_heads(x: Any) -> Any:
        return layers.transpose(layers.reshape(x, [0, 0, 2, 4]), [0, 2, 1, 3])

    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.TruncatedNormal(scale=0.2))
    seen = layers.layer_norm(layers.embedding(words, [20, 8], param_attr=table), begin_norm_axis=2)
    bias = layers.matmul(mask, mask, transpose_y=True)
    bias = layers.scale(bias, scale=10000.0, bias=-1.0, bias_after_scale=False)
    bias = layers.stack(x=[bias] * 2, axis=1)
    bias.stop_gradient = True
    # a bias of the keys moves all weights of a row alike: softmax would leave its gradient nothing but noise
    has_bias = (None, False, None)
    projected = [layers.fc(seen, 8, num_flatten_dims=2, bias_attr=bias_attr) for bias_attr in has_bias]
    query, key, value = (split_heads(one) for one in projected)
    weights = layers.softmax(layers.matmul(layers.scale(query, 0.5), key, transpose_y=True) + bias)
    heard = layers.reshape(layers.transpose(layers.matmul(weights, value), [0, 2, 1, 3]), [0, 0, 8])
    heard = layers.layer_norm(seen + layers.fc(heard, 8, num_flatten_dims=2), begin_norm_axis=2)
    found = layers.gather(layers.reshape(heard, [-1, 8]), layers.cast(places, "int32"))
    found = layers.fc(found, 8, act="gelu")
    shared = fluid.default_main_program().global_block().var("table")
    logits = layers.matmul(found, shared, transpose_y=True)
    logits += layers.create_parameter([20], "float32", name="offsets", is_bias=True)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, missing))
    rate = switched_rate(fluid)
    decayed(fluid, loss, rate)
    feeds = {
        "words": ids(2, 6, 1, below=20),
        "mask": fixed([[[1]] * 6, [[1]] * 4 + [[0]] * 2]),
        "places": ids(3, 1, below=12),
        "missing": ids(3, 1, below=20),
    }
    return train(fluid, feeds, loss, rate, logits)


def switched_rate(fluid: Any) -> Any:
    """A learning rate that rises for three steps and falls from there."""
    layers = fluid.layers
    rate = layers.tensor.create_global_var([1], 0.0, "float32", persistable=True, name="scheduled_rate")
    step = layers.learning_rate_scheduler._decay_step_counter()
    falling = layers.learning_rate_scheduler.polynomial_decay(0.01, 12, 0.0, 1.0, cycle=False)
    with layers.control_flow.Switch() as switch:
        with switch.case(step < 3.0):
            layers.tensor.assign(0.01 * (step / 3.0), rate)
        with switch.default():
            layers.tensor.assign(falling, rate)
    return rate


def decayed(fluid: Any, loss: Any, rate: Any) -> None:
    """Train by Adam, and take a share of the old parameters off."""
    optimizer = fluid.optimizer.Adam(learning_rate=rate)
    before = {}
    for parameter in fluid.default_main_program().global_block().all_parameters():
        before[parameter.name] = parameter * 1.0
        before[parameter.name].stop_gradient = True
    fluid.clip.set_gradient_clip(clip=fluid.clip.GradientClipByGlobalNorm(clip_norm=1.0))
    _, pairs = optimizer.minimize(loss)
    for parameter, gradient in pairs:
        if "b_0" in parameter.name:
            continue
        guard = parameter.block.program._optimized_guard([parameter, gradient])
        with guard, fluid.framework.name_scope("weight_decay"):
            smaller = parameter - before[parameter.name] * 0.1 * rate
            fluid.layers.assign(output=parameter, input=smaller)


@case
def shifted_frames(fluid: Any) -> Built:
    """Frames that hand channels to their neighbours, beside convolutions over time."""
    layers = fluid.layers
    video = layers.data("video", [4, 2, 6, 6])
    label = layers.data("label", [1], dtype="int64")
    frames = layers.reshape(video, [-1, *video.shape[2:]])
    hidden = layers.temporal_shift(layers.conv2d(frames, 8, 3, 2, 1, act="relu"), 4, 1.0 / 8)
    hidden = layers.pool2d(layers.conv2d(hidden, 8, 3, padding=1), pool_type="avg", global_pooling=True)
    hidden = layers.reduce_mean(layers.reshape(hidden, [-1, 4, 8]), 1)
    volume = layers.conv3d(layers.transpose(video, [0, 2, 1, 3, 4]), 4, 3, 1, 1, bias_attr=False)
    volume = layers.pool3d(layers.batch_norm(volume, act="relu"), 2, "max", 2)
    volume = layers.conv3d_transpose(volume, 4, filter_size=2, stride=2)
    volume = layers.squeeze(layers.adaptive_pool3d(volume, 1, "avg"), [2, 3, 4])
    prob = layers.fc([hidden, volume], 5, act="softmax")
    loss = layers.mean(layers.cross_entropy(prob, label, ignore_index=-1))
    decay = fluid.regularizer.L2Decay(1e-4)
    rate = layers.piecewise_decay([4], [0.01, 0.001])
    fluid.optimizer.Momentum(rate, 0.9, use_nesterov=True, regularization=decay).minimize(loss)
    return train(fluid, {"video": floats(2, 4, 2, 6, 6), "label": ids(2, 1, below=5)}, loss, prob)


@case
def gradient_penalty(fluid: Any) -> Built:
    """A critic held to gradients of length one, between what is real and what is made."""
    layers = fluid.layers

    def critic(x: Any) -> Any:
        hidden = layers.fc(x, 8, act="tanh", param_attr="dw1", bias_attr="db1")
        return layers.fc(hidden, 1, param_attr="dw2", bias_attr="db2")

    real = fluid.data("real", [4, 6])
    noise = fluid.data("noise", [4, 3])
    share = fluid.data("share", [4, 1])
    fake = layers.fc(noise, 6, param_attr="gw", bias_attr="gb")
    fake.stop_gradient = True
    between = real + layers.elementwise_mul(fake - real, layers.reshape(share, [-1]), axis=0)
    between.stop_gradient = False
    slope = fluid.gradients(critic(between), between)[0]
    length = layers.sqrt(layers.reduce_sum(layers.square(slope), dim=1) + 1e-10)
    penalty = layers.reduce_mean(layers.square(length - 1.0))
    loss = layers.reduce_mean(critic(fake)) - layers.reduce_mean(critic(real)) + 10.0 * penalty
    names = ["dw1", "db1", "dw2", "db2"]
    fluid.optimizer.RMSPropOptimizer(0.01).minimize(loss, parameter_list=names)
    feeds = {"real": floats(4, 6), "noise": floats(4, 3), "share": floats(4, 1, low=0.0)}
    return train(fluid, feeds, loss, penalty, length)


@case
def slipped_label(fluid: Any) -> Built:
    """`data` takes `append_batch_size` third: a label declared as a float, and fed whole numbers."""
    layers = fluid.layers
    image = layers.data("image", [6])
    label = layers.data("label", [1], "int64")
    prob = layers.fc(image, 4, act="softmax")
    loss = layers.mean(layers.cross_entropy(prob, label))
    accuracy = layers.accuracy(prob, label)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return train(fluid, {"image": floats(5, 6), "label": ids(5, 1, below=4)}, loss, accuracy)
