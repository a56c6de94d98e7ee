"""`paddle.distribution`: distributions, transforms of them, and divergences, as ops of a program."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HERE = "fluidlite.paddle.distribution"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HERE}.distribution": "Distribution ExponentialFamily",
        f"{_HERE}.normal": "LogNormal Normal",
        f"{_HERE}.uniform": "Uniform",
        f"{_HERE}.location_scale": "Cauchy Gumbel Laplace",
        f"{_HERE}.trials": "Bernoulli Geometric",
        f"{_HERE}.categorical": "Categorical Multinomial",
        f"{_HERE}.dirichlet": "Beta Dirichlet",
        f"{_HERE}.transformed_distribution": "ChainTransform Independent Transform TransformedDistribution",
        f"{_HERE}.transform": "AbsTransform AffineTransform ExpTransform IndependentTransform PowerTransform "
        "ReshapeTransform SigmoidTransform SoftmaxTransform StackTransform StickBreakingTransform "
        "TanhTransform",
        f"{_HERE}.kl": "kl_divergence register_kl",
    },
    "categorical constraint dirichlet distribution kl normal transform transformed_distribution uniform "
    "variable",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
