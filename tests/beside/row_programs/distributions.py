"""Differences of 2.6.2's `paddle.distribution`; see the package's docstring."""

import numpy as np

from beside.row_programs import gradient, run, shows
from beside.row_programs.of_2x import declared, static


@shows("densities-of-one-name")
def _(paddle):
    def build(x):
        near, far = paddle.distribution.Normal(0.0, 1.0), paddle.distribution.Normal(0.0, 2.0)
        return near.log_prob(x) - far.log_prob(x)

    x = np.array([1.0, 3.0], "float32")
    return run(static(paddle), build, x=x)[0], np.log(2.0) - 3.0 / 8.0 * x**2


@shows("geometric-divergence")
def _(paddle):
    def build(p, q):
        distribution = paddle.distribution
        return distribution.kl_divergence(distribution.Geometric(p), distribution.Geometric(q))

    p, q = np.array([0.5]), np.array([0.25])
    right = np.log(p / q) + (1 - p) / p * np.log((1 - p) / (1 - q))
    return run(static(paddle), build, p=p, q=q)[0], right


@shows("affine-events")
def _(paddle):
    def build(x, scale):
        transform = paddle.distribution.AffineTransform(scale * 0.0, scale)
        return paddle.distribution.IndependentTransform(transform, 1).forward_log_det_jacobian(x)

    return run(static(paddle), build, x=np.ones(3), scale=np.array([2.0]))[0].reshape(-1), [3 * np.log(2.0)]


@shows("entropy-slopes")
def _(paddle):
    def build(p):
        return paddle.distribution.Bernoulli(p).entropy()

    return gradient(static(paddle), build, p=np.array([0.2, 0.6]))


@shows("laplace-median")
def _(paddle):
    def build(x, scale):
        return paddle.distribution.Laplace(scale * 0.0, scale).cdf(x)

    return gradient(static(paddle), build, x=np.array([0.0]), scale=np.array([0.5]))


@shows("far-densities")
def _(paddle):
    def build(x):
        return paddle.distribution.Gumbel(x * 0.0, x * 0.0 + 1.0).log_prob(x)

    x = np.array([-8.0, 900.0])
    return run(static(paddle), build, x=x)[0], -x - np.exp(-x)


@shows("shares-of-zero")
def _(paddle):
    def build(p):
        return paddle.distribution.Multinomial(3, p).entropy()

    chances = np.array([1.0, 3.0, 3.0, 1.0]) / 8
    return run(static(paddle), build, p=np.array([0.0, 0.5, 0.5]))[0], -np.sum(chances * np.log(chances))


@shows("softmax-of-rows")
def _(paddle):
    def build(x):
        return paddle.distribution.SoftmaxTransform().forward(x)

    return run(static(paddle), build, x=np.array([[0.0, 0.0], [0.0, 900.0]]))[0], [[0.5, 0.5], [0.0, 1.0]]


@shows("beta-of-one")
def _(paddle):
    def build(a):
        return paddle.distribution.Beta(a, a).sample([4])

    return list(run(static(paddle), build, a=np.array([0.5]))[0].shape), [4, 1]


@shows("shapes-of-parameters")
def _(paddle):
    def build():
        loc, scale = paddle.static.data("loc", [2]), paddle.static.data("scale", [3, 2])
        return list(paddle.distribution.Normal(loc, scale).batch_shape)

    return declared(paddle, build), [3, 2]


@shows("chains-backwards")
def _(paddle):
    def build():
        distribution = paddle.distribution
        parts = [distribution.StickBreakingTransform(), distribution.ReshapeTransform((4,), (2, 2))]
        return list(distribution.ChainTransform(parts).inverse_shape((2, 2)))

    return declared(paddle, build), [3]


@shows("batches-as-events")
def _(paddle):
    def build(x):
        distribution = paddle.distribution
        parts = [distribution.StickBreakingTransform()]
        return distribution.TransformedDistribution(distribution.Normal(x, x), parts).sample([5])

    return list(run(static(paddle), build, x=np.ones([2, 3]))[0].shape), [5, 2, 4]


@shows("constraints-of-two")
def _(paddle):
    def build(x):
        return paddle.cast(paddle.distribution.constraint.Range(0.0, 1.0)(x), "float64")

    return run(static(paddle), build, x=np.array([-1.0, 0.5, 2.0]))[0], [0.0, 1.0, 0.0]


@shows("draws-of-open-batches")
def _(paddle):
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        loc = paddle.static.data("loc", [None, 2])
        drawn = paddle.distribution.Laplace(loc, loc).rsample([4])
    feed = {"loc": np.ones([3, 2], "float32")}
    (found,) = paddle.static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=[drawn])
    return list(found.shape), [4, 3, 2]


@shows("entropies-of-families")
def _(paddle):
    class Shares(paddle.distribution.ExponentialFamily):
        def __init__(self, counts):
            self.counts = counts
            super().__init__(counts.shape[:-1], counts.shape[-1:])

        @property
        def _natural_parameters(self):
            return (self.counts,)

        def _log_normalizer(self, x):
            return paddle.lgamma(x).sum(-1) - paddle.lgamma(x.sum(-1))

        _mean_carrier_measure = 0.0

    found = run(static(paddle), lambda x: Shares(x).entropy(), x=np.array([1.0, 2.0]))[0]
    # the gradient of the normalizer is that of lgamma, the digamma function: -3/2 and -1/2 of 1 and 2 in 3
    return found.reshape(-1), [-np.log(2.0) + 1.0 * 1.5 + 2.0 * 0.5]


@shows("classes-for-all-rows")
def _(paddle):
    def build(x, at):
        return paddle.distribution.Categorical(x).probs(at)

    found = run(static(paddle), build, x=np.array([[1.0, 3.0], [3.0, 2.0]]), at=np.array([1, 0, 1]))[0]
    return found, [[0.75, 0.25, 0.75], [0.4, 0.6, 0.4]]
