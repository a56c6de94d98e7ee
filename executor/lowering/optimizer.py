"""Parameter updates, in place; row-sparse gradients touch only their rows."""
from __future__ import annotations

from fluidlite.executor.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan_ir import Value


def _dense(e: Emitter) -> tuple[Value, Value, Value]:
    """Parameter, gradient and learning rate of an update whose gradient is dense."""
    param, grad, rate = e.need("Param"), e.need("Grad"), e.need("LearningRate")
    if param.shape != grad.shape or param.dtype != grad.dtype or rate.size != 1:
        raise CannotLower("shapes differ")
    return param, grad, e.reshape(rate, ())


def _target(e: Emitter, slot: str, source: Value) -> Value:
    """The output that takes the place of the input `source`."""
    return e.out(slot, source.shape, source.dtype, inplace=True)


@lowering("sgd")
def _(e: Emitter) -> None:
    param, grad, rate = _dense(e)
    e.elementwise("param - lr * grad", _target(e, "ParamOut", param), param=param, lr=rate, grad=grad)


@lowering("momentum")
def _(e: Emitter) -> None:
    param, grad, rate = _dense(e)
    velocity, mu = e.need("Velocity"), e.attr("mu")
    new = _target(e, "VelocityOut", velocity)
    e.elementwise("mu * velocity + grad", new, mu=mu, velocity=velocity, grad=grad)
    out = _target(e, "ParamOut", param)
    if e.attr("use_nesterov"):
        e.elementwise("param - (grad + mu * velocity) * lr", out, param=param, grad=grad, mu=mu, velocity=new, lr=rate)
    else:
        e.elementwise("param - lr * velocity", out, param=param, lr=rate, velocity=new)


@lowering("adam")
def _(e: Emitter) -> None:
    param, grad, rate = _dense(e)
    for slot in ("Beta1Tensor", "Beta2Tensor"):
        if e.op.inputs.get(slot):
            raise CannotLower(slot)
    one, two = e.need("Moment1"), e.need("Moment2")
    pow1, pow2 = e.reshape(e.need("Beta1Pow"), ()), e.reshape(e.need("Beta2Pow"), ())
    b1, b2 = e.attr("beta1"), e.attr("beta2")
    step = e.temp((), param.dtype)
    e.elementwise("lr * sqrt(1 - p2) / (1 - p1)", step, lr=rate, p1=pow1, p2=pow2)
    m, v = _target(e, "Moment1Out", one), _target(e, "Moment2Out", two)
    e.elementwise("b1 * m + c1 * g", m, b1=b1, c1=1 - b1, m=one, g=grad)
    e.elementwise("b2 * v + c2 * (g * g)", v, b2=b2, c2=1 - b2, v=two, g=grad)
    e.elementwise("p - m / (sqrt(v) + epsilon) * step", _target(e, "ParamOut", param), p=param, step=step, m=m, v=v,
                  epsilon=e.attr("epsilon"))
    _advance(e, "Beta1", b1)
    _advance(e, "Beta2", b2)


def _advance(e: Emitter, name: str, beta: float) -> None:
    """Multiply a beta power by its beta, where this op is the one that does it."""
    if e.op.outputs.get(f"{name}PowOut") and not e.op.attrs.get("use_global_beta_pow"):
        power = e.need(f"{name}Pow")
        e.elementwise("p * beta", _target(e, f"{name}PowOut", power), p=power, beta=beta)


@lowering("adagrad")
def _(e: Emitter) -> None:
    param, grad, rate = _dense(e)
    moment = e.need("Moment")
    new = _target(e, "MomentOut", moment)
    e.elementwise("m + g * g", new, m=moment, g=grad)
    e.elementwise("p - lr * g / (sqrt(m) + epsilon)", _target(e, "ParamOut", param), p=param, lr=rate, g=grad, m=new,
                  epsilon=e.attr("epsilon"))
