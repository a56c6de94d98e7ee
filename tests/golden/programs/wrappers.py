"""Optimizers around optimizers, averages of parameters, recomputation."""

from typing import Any, Tuple

from ..cases import Built, Run, case, floats, train


def regression(fluid: Any) -> Tuple[Any, Any]:
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    hidden = fluid.layers.fc(x, size=5, act="tanh")
    return hidden, fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, size=2)))


@case
def moving_average(fluid: Any) -> Built:
    """ExponentialMovingAverage: update inside training, apply and restore after it."""
    _, loss = regression(fluid)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    ema = fluid.optimizer.ExponentialMovingAverage(0.9)
    ema.update()
    feeds = {"x": floats(4, 4)}
    built = train(fluid, feeds, loss)
    built.after += [
        Run(ema.apply_program, {}, []),
        Run(test, feeds, [loss]),
        Run(ema.restore_program, {}, []),
    ]
    return built


@case
def moving_average_thres(fluid: Any) -> Built:
    """ExponentialMovingAverage whose decay grows with the step."""
    _, loss = regression(fluid)
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    step = fluid.layers.autoincreased_step_counter(counter_name="@EMA_STEPS@", begin=0)
    ema = fluid.optimizer.ExponentialMovingAverage(0.999, thres_steps=step, name="avg")
    ema.update()
    built = train(fluid, {"x": floats(4, 4)}, loss)
    built.after += [Run(ema.apply_program, {}, []), Run(ema.restore_program, {}, [])]
    return built


@case
def model_average(fluid: Any) -> Built:
    _, loss = regression(fluid)
    fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9).minimize(loss)
    average = fluid.optimizer.ModelAverage(0.15, min_average_window=2, max_average_window=4)
    built = train(fluid, {"x": floats(4, 4)}, loss)
    built.after += [Run(average.apply_program, {}, []), Run(average.restore_program, {}, [])]
    return built


@case
def look_ahead(fluid: Any) -> Built:
    _, loss = regression(fluid)
    inner = fluid.optimizer.SGD(learning_rate=0.2)
    fluid.optimizer.LookaheadOptimizer(inner, alpha=0.5, k=3).minimize(loss)
    return train(fluid, {"x": floats(4, 4)}, loss)


@case
def recompute(fluid: Any) -> Built:
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    first = fluid.layers.fc(x, size=5, act="tanh")
    middle = fluid.layers.fc(fluid.layers.fc(first, size=6, act="sigmoid"), size=5, act="tanh")
    out = fluid.layers.fc(fluid.layers.fc(middle, size=6, act="sigmoid"), size=2)
    loss = fluid.layers.mean(fluid.layers.square(out))
    optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.Adam(learning_rate=0.01))
    optimizer._set_checkpoints([first, middle])
    optimizer.minimize(loss)
    return train(fluid, {"x": floats(4, 4)}, loss)


@case
def weight_norm(fluid: Any) -> Built:
    """WeightNormParamAttr: a direction and a length are trained instead of the weights."""
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    hidden = fluid.layers.fc(
        x, size=5, act="tanh", param_attr=fluid.WeightNormParamAttr(dim=None, name="wn_all")
    )
    out = fluid.layers.fc(hidden, size=2, param_attr=fluid.WeightNormParamAttr(dim=1, name="wn_columns"))
    loss = fluid.layers.mean(fluid.layers.square(out))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"x": floats(4, 4)}, loss)


@case
def spectral_norm(fluid: Any) -> Built:
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    weight = fluid.layers.create_parameter(shape=[4, 6], dtype="float32", name="sn_w")
    normal = fluid.layers.spectral_norm(weight, dim=0, power_iters=2)
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.matmul(x, normal)))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"x": floats(4, 4)}, loss, normal)


@case
def decoupled_decay(fluid: Any) -> Built:
    """contrib's extend_with_decoupled_weight_decay over Adam (AdamW)."""
    _, loss = regression(fluid)
    adamw = fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.Adam)
    adamw(learning_rate=0.05, weight_decay=0.1).minimize(loss)
    return train(fluid, {"x": floats(4, 4)}, loss)


@case
def apply_by_hand(fluid: Any) -> Built:
    """backward and apply_gradients called apart, one gradient scaled in between."""
    _, loss = regression(fluid)
    optimizer = fluid.optimizer.Momentum(
        learning_rate=0.1, momentum=0.9, regularization=fluid.regularizer.L2Decay(0.01)
    )
    pairs = optimizer.backward(loss)
    halved = [
        (param, fluid.layers.scale(grad, 0.5) if param.name.endswith(".b_0") else grad)
        for param, grad in pairs
    ]
    optimizer.apply_gradients(halved)
    return train(fluid, {"x": floats(4, 4)}, loss)
