"""Gradient clips and regularisers, alone and together."""

from typing import Any, Callable, Dict

from ..cases import Built, case, floats, named, train


def two_layers(fluid: Any, first: Any = None, second: Any = None) -> Any:
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    hidden = fluid.layers.fc(x, size=5, act="tanh", param_attr=first)
    return fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, size=3, param_attr=second)))


def finished(fluid: Any, loss: Any) -> Built:
    return train(fluid, {"x": floats(4, 4, low=-2.0, high=2.0)}, loss)


CLIPS: Dict[str, Callable[[Any], Any]] = {
    "value": lambda clip: clip.GradientClipByValue(max=0.01, min=-0.02),
    "norm": lambda clip: clip.GradientClipByNorm(clip_norm=0.05),
    "global_norm": lambda clip: clip.GradientClipByGlobalNorm(clip_norm=0.05),
}


def clip_set(fluid: Any, make: Callable[[Any], Any]) -> Built:
    loss = two_layers(fluid)
    fluid.clip.set_gradient_clip(make(fluid.clip))
    fluid.optimizer.SGD(learning_rate=0.5).minimize(loss)
    return finished(fluid, loss)


def clip_passed(fluid: Any, make: Callable[[Any], Any]) -> Built:
    loss = two_layers(fluid)
    fluid.optimizer.Momentum(learning_rate=0.5, momentum=0.5, grad_clip=make(fluid.clip)).minimize(loss)
    return finished(fluid, loss)


def register() -> None:
    for name, make in CLIPS.items():
        named("clip_set_" + name, lambda fluid, make=make: clip_set(fluid, make))
        named("clip_passed_" + name, lambda fluid, make=make: clip_passed(fluid, make))


register()


@case
def clip_set_some(fluid: Any) -> Built:
    """set_gradient_clip for one parameter by name; the other is left alone."""
    loss = two_layers(fluid, fluid.ParamAttr(name="first_w"), fluid.ParamAttr(name="second_w"))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(clip_norm=0.02), param_list=["first_w"])
    fluid.optimizer.SGD(learning_rate=0.5).minimize(loss)
    return finished(fluid, loss)


@case
def clip_and_decay(fluid: Any) -> Built:
    """Clipping comes before regularisation."""
    loss = two_layers(fluid)
    fluid.optimizer.Adam(
        learning_rate=0.01,
        regularization=fluid.regularizer.L2Decay(0.1),
        grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1),
    ).minimize(loss)
    return finished(fluid, loss)


@case
def clip_error(fluid: Any) -> Built:
    """ErrorClipByValue on a hidden variable clips the gradient on its way back."""
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    hidden = fluid.layers.fc(x, size=5, act="tanh")
    hidden.error_clip = fluid.clip.ErrorClipByValue(max=0.003, min=-0.002)
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, size=3)))
    fluid.optimizer.SGD(learning_rate=0.5).minimize(loss)
    return finished(fluid, loss)


@case
def decay_l1(fluid: Any) -> Built:
    loss = two_layers(fluid)
    fluid.optimizer.SGD(learning_rate=0.1, regularization=fluid.regularizer.L1Decay(0.05)).minimize(loss)
    return finished(fluid, loss)


@case
def decay_l2(fluid: Any) -> Built:
    loss = two_layers(fluid)
    fluid.optimizer.SGD(learning_rate=0.1, regularization=fluid.regularizer.L2Decay(0.05)).minimize(loss)
    return finished(fluid, loss)


@case
def decay_per_parameter(fluid: Any) -> Built:
    """A parameter's own regulariser wins over the optimizer's."""
    loss = two_layers(
        fluid,
        fluid.ParamAttr(regularizer=fluid.regularizer.L1Decay(0.03)),
        fluid.ParamAttr(regularizer=fluid.regularizer.L2Decay(0.2)),
    )
    fluid.optimizer.Momentum(
        learning_rate=0.1, momentum=0.9, regularization=fluid.regularizer.L2Decay(0.01)
    ).minimize(loss)
    return finished(fluid, loss)
