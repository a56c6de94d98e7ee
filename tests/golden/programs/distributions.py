"""`layers.distributions`: entropies, densities and divergences; samples only of a fixed shape."""

from typing import Any

from ..cases import Built, case, floats, train


@case
def distributions(fluid: Any) -> Built:
    layers = fluid.layers
    x = fluid.data("x", [3, 4])
    loc, scale = layers.fc(x, 4), layers.exp(layers.fc(x, 4))
    normal, standard = layers.Normal(loc, scale), layers.Normal(0.0, 1.0)
    uniform = layers.Uniform(loc, loc + scale)
    categorical, other = layers.Categorical(loc), layers.Categorical(x)
    ones = layers.diag(layers.reduce_mean(scale, dim=0))
    gaussian = layers.MultivariateNormalDiag(layers.reduce_mean(loc, dim=0), ones)
    far = layers.MultivariateNormalDiag(
        [0.1, 0.2, 0.3, 0.4], [[0.0] * i + [2.0] + [0.0] * (3 - i) for i in range(4)]
    )
    terms = [
        normal.entropy(),
        normal.log_prob(x),
        normal.kl_divergence(layers.Normal([0.5, 0.0, 1.0, 0.0], [1.0, 2.0, 1.0, 3.0])),
        uniform.entropy(),
        categorical.entropy(),
        categorical.kl_divergence(other),
        gaussian.entropy(),
        layers.MultivariateNormalDiag([0.1, 0.2], [[0.5, 0.0], [0.0, 2.0]]).entropy(),
        gaussian._det(far.scale),
        gaussian._inv(far.scale),
        standard.log_prob(x),
        standard.entropy(),
    ]
    loss = layers.sums([layers.mean(term) for term in terms])
    fluid.optimizer.SGD(0.05).minimize(loss)
    return train(fluid, {"x": floats(3, 4)}, loss, *terms)
