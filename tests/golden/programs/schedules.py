"""Every learning-rate schedule, and learning rates that are variables."""

from typing import Any, Callable, Dict

from ..cases import Built, Run, case, floats, named, train

SCHEDULES: Dict[str, Callable[[Any], Any]] = {
    "exponential": lambda layers: layers.exponential_decay(0.1, decay_steps=3, decay_rate=0.5),
    "exponential_stairs": lambda layers: layers.exponential_decay(
        0.1, decay_steps=3, decay_rate=0.5, staircase=True
    ),
    "natural_exp": lambda layers: layers.natural_exp_decay(0.1, decay_steps=3, decay_rate=0.5),
    "natural_exp_stairs": lambda layers: layers.natural_exp_decay(
        0.1, decay_steps=3, decay_rate=0.5, staircase=True
    ),
    "inverse_time": lambda layers: layers.inverse_time_decay(0.1, decay_steps=3, decay_rate=0.5),
    "inverse_time_stairs": lambda layers: layers.inverse_time_decay(0.1, 3, 0.5, staircase=True),
    "polynomial": lambda layers: layers.polynomial_decay(
        0.1, decay_steps=6, end_learning_rate=0.01, power=2.0
    ),
    "polynomial_cycle": lambda layers: layers.polynomial_decay(0.1, 4, 0.01, power=1.5, cycle=True),
    "piecewise": lambda layers: layers.piecewise_decay([2, 5, 7], [0.1, 0.2, 0.05, 0.01]),
    "noam": lambda layers: layers.noam_decay(d_model=16, warmup_steps=4),
    "noam_rate": lambda layers: layers.noam_decay(d_model=16, warmup_steps=4, learning_rate=0.5),
    "cosine": lambda layers: layers.cosine_decay(0.1, step_each_epoch=2, epochs=5),
    "warmup": lambda layers: layers.linear_lr_warmup(0.1, warmup_steps=5, start_lr=0.0, end_lr=0.2),
    "warmup_piecewise": lambda layers: layers.linear_lr_warmup(
        layers.piecewise_decay([6, 8], [0.1, 0.05, 0.01]), warmup_steps=4, start_lr=0.01, end_lr=0.1
    ),
}


def scheduled(fluid: Any, make: Callable[[Any], Any]) -> Built:
    x = fluid.data(name="x", shape=[None, 3], dtype="float32")
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, size=2)))
    rate = make(fluid.layers)
    fluid.optimizer.SGD(learning_rate=rate).minimize(loss)
    return train(fluid, {"x": floats(3, 3)}, loss, rate)


def register() -> None:
    for name, make in SCHEDULES.items():
        named("schedule_" + name, lambda fluid, make=make: scheduled(fluid, make))


register()


@case
def schedule_with_multipliers(fluid: Any) -> Built:
    """A schedule over parameters with their own multipliers and decay."""
    x = fluid.data(name="x", shape=[None, 3], dtype="float32")
    slow = fluid.ParamAttr(name="slow", learning_rate=0.1, regularizer=fluid.regularizer.L1Decay(0.01))
    fast = fluid.ParamAttr(name="fast", learning_rate=3.0)
    hidden = fluid.layers.fc(x, size=3, param_attr=slow, act="tanh")
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, size=2, param_attr=fast)))
    rate = fluid.layers.exponential_decay(0.004, 2, 0.7)
    fluid.optimizer.Adam(learning_rate=rate, regularization=fluid.regularizer.L2Decay(0.02)).minimize(loss)
    return train(fluid, {"x": floats(3, 3)}, loss, rate)


@case
def schedule_before_clone(fluid: Any) -> Built:
    """A schedule made before the program is cloned for tests goes into the copy, whose runs count too."""
    layers = fluid.layers
    loss = layers.mean(layers.square(layers.fc(fluid.data("x", [None, 3]), 2)))
    rate = layers.piecewise_decay([5, 9], [0.1, 0.05, 0.01])
    copy = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Momentum(rate, 0.9).minimize(loss)
    feeds = {"x": floats(3, 3)}
    built = train(fluid, feeds, loss, rate)
    built.steps.append(Run(copy, feeds, [loss]))
    return built
