"""`paddle.distribution.kl`: the divergence of two distributions, by a function for each pair of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.distribution.categorical import Categorical
from fluidlite.paddle.distribution.dirichlet import Beta, Dirichlet
from fluidlite.paddle.distribution.distribution import Distribution, ExponentialFamily
from fluidlite.paddle.distribution.location_scale import Cauchy, Laplace
from fluidlite.paddle.distribution.normal import LogNormal, Normal
from fluidlite.paddle.distribution.trials import Bernoulli, Geometric
from fluidlite.paddle.distribution.uniform import Uniform

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Variable]
_FUNCTIONS: dict[tuple[type, type], Divergence] = {}


def register_kl(cls_p: type, cls_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator of the function that computes the divergence of two classes, and of classes derived from
    them that have none of their own.
    """
    for cls in (cls_p, cls_q):
        if not issubclass(cls, Distribution):
            raise TypeError(f"register_kl: {cls.__name__} is not derived from Distribution")

    def register(function: Divergence) -> Divergence:
        _FUNCTIONS[cls_p, cls_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Variable:
    """The Kullback-Leibler divergence of q from p: the mean of log p(x) - log q(x) of draws x of p."""
    return _function(type(p), type(q))(p, q)


def _function(cls_p: type, cls_q: type) -> Divergence:
    """The function of the nearest base classes; a warning where that of p's nearest is not that of q's."""
    pairs = [pair for pair in _FUNCTIONS if issubclass(cls_p, pair[0]) and issubclass(cls_q, pair[1])]
    if not pairs:
        abstract(f"kl_divergence: register_kl({cls_p.__name__}, {cls_q.__name__}) has no function")

    def distances(pair: tuple[type, type]) -> tuple[int, int]:
        return cls_p.__mro__.index(pair[0]), cls_q.__mro__.index(pair[1])

    nearest = min(pairs, key=distances)
    nearest_of_q = min(pairs, key=lambda pair: distances(pair)[::-1])
    if _FUNCTIONS[nearest] is not _FUNCTIONS[nearest_of_q]:
        warn_user(
            f"kl_divergence({cls_p.__name__}, {cls_q.__name__}) may be that of {_named(nearest)} or of "
            f"{_named(nearest_of_q)}: register_kl{_named((nearest[0], nearest_of_q[1]))} says which",
            category=RuntimeWarning,
        )
    return _FUNCTIONS[nearest]


def _named(pair: tuple[type, type]) -> str:
    return f"({pair[0].__name__}, {pair[1].__name__})"


def _by_its_class(p: Distribution, q: Distribution) -> Variable:
    found: Variable = p.kl_divergence(q)
    return found


for _cls in (Bernoulli, Categorical, Cauchy, Geometric, Laplace, LogNormal, Normal, Uniform):
    register_kl(_cls, _cls)(_by_its_class)


@register_kl(Beta, Beta)
@register_kl(Dirichlet, Dirichlet)
@register_kl(ExponentialFamily, ExponentialFamily)
def _of_a_family(p: ExponentialFamily, q: ExponentialFamily) -> Variable:
    """The divergence of two distributions of one family, by their natural parameters."""
    if type(p) is not type(q):
        abstract(f"kl_divergence: {type(p).__name__} and {type(q).__name__} are not of one family")
    return p._divergence(q)
