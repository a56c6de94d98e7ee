"""`paddle.distribution` beside what 2.6.2 gave, beside closed forms, and its draws by their moments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from golden import distributions_2x as cases

import fluidlite.paddle as paddle
from fluidlite.base.errors import ShapeError

D = paddle.distribution
RECORDED = cases.recorded()
MADE = list(dict.fromkeys(made for made, _, _ in cases.expressions()))
# where ours is right and 2.6.2 is not, which rows of docs/DIFFERENCES.md say
WRONG = {
    "Normal(m, h)|variance": "shape slopes values",  # parameters of two shapes
    "Bernoulli(p)|entropy()": "slopes",
    "Categorical(s)|probs(j)": "dtype error shape slopes values",
    "Geometric(p)|variance": "slopes",  # 2.6.2 gives none
    "Geometric(p)|stddev": "slopes",
    "Laplace(m, s)|icdf(u)": "slopes",  # at the median
    "Beta(o, o)|sample([4])": "shape",
}
# what is fed comes back: 2.6.2 says that it has no gradient by itself
IDENTITIES = {"mean", "loc", "scale", "power", "forward_log_det_jacobian(v)"}


def alike(one: Any, other: Any, tolerance: float) -> bool:
    first, second = np.array(one, "float64"), np.array(other, "float64")
    close = np.allclose(first, second, rtol=tolerance, atol=tolerance, equal_nan=True)
    return first.shape == second.shape and close


def different(found: dict[str, Any], right: dict[str, Any], asked: str, random: bool) -> str:
    """The names of the facts in which ours is not what 2.6.2 gave."""
    names = []
    for name in sorted({*found, *right}):
        ours, theirs = found.get(name), right.get(name)
        if name == "error" and ours and theirs:
            same = theirs[0] in ours
        elif name == "values" and ours and theirs:
            same = all(alike(a, b, 2e-5) for a, b in zip(ours, theirs, strict=True))
        elif name == "slopes" and isinstance(ours, dict) and isinstance(theirs, dict):
            same = _alike_slopes(ours, theirs, asked)
        elif name == "slopes" and isinstance(theirs, str):
            same = True  # an error of 2.6.2's kernels: central differences have the word
        else:
            same = ours == theirs or (name == "plain" and list(ours) == list(theirs))
        names += [] if same else [name]
    return " ".join(names)


def _alike_slopes(ours: dict[str, Any], theirs: dict[str, Any], asked: str) -> bool:
    """True for equal gradients; one that is not there is zero."""
    if asked in IDENTITIES and not theirs:
        return True
    return all(_alike_slope(ours.get(name), theirs.get(name)) for name in {*ours, *theirs})


def _alike_slope(a: Any, b: Any) -> bool:
    if a is None:
        return not np.any(b)
    return alike(a, np.zeros_like(a) if b is None else b, 5e-5)


@pytest.mark.parametrize("made", MADE)
def test_beside_paddle(made: str) -> None:
    for _, asked, random in (case for case in cases.expressions() if case[0] == made):
        for dtype in cases.DTYPES:
            found = cases.facts(paddle, made, asked, random, dtype)
            differs = different(found, RECORDED[f"{made}|{asked}|{dtype}"], asked, random)
            assert differs == WRONG.get(f"{made}|{asked}", ""), (asked, dtype, found)


@pytest.mark.parametrize("text", cases.refused())
def test_refused_as_by_paddle(text: str) -> None:
    found = cases.facts(paddle, text, "", False, "float32")
    assert RECORDED[text]["error"][0] in found["error"]


# ---------------------------------------------------------------------- gradients
SMOOTH = [
    (made, asked)
    for made, asked, random in cases.expressions()
    if asked != "sample([4])" and (not random or asked == "rsample([4])")
]


@pytest.mark.filterwarnings("ignore:.*becomes float32")
@pytest.mark.parametrize("made", MADE)
def test_gradients_by_central_differences(made: str) -> None:
    """Of what is not random, and of draws whose noise a seed makes the same in each run."""
    for asked in [asked for one, asked in SMOOTH if one == made]:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            try:
                found, given = cases.build(paddle, made, asked, "float64")
            except (TypeError, NotImplementedError, ValueError):
                continue
            names = [name for name in given if name not in cases.FLAT]
            if isinstance(found, tuple) or not hasattr(found, "block") or not names:
                continue
            # parameters that are numbers are float32, which is too short for differences
            if found.stop_gradient or "(0." in made or found.dtype != paddle.float64:
                continue
            total = paddle.sum(found * weights(found))
            slopes = paddle.static.gradients([total], [given[name] for name in names])
        check_slopes(main, total, dict(zip(names, slopes, strict=True)), given)


def weights(found: Any) -> Any:
    size = math.prod(found.shape)
    return paddle.reshape(paddle.to_tensor(np.linspace(0.5, 1.5, size)), found.shape)


def check_slopes(main: Any, total: Any, slopes: dict[str, Any], given: dict[str, Any]) -> None:
    """Along one direction for each tensor, in which no two elements move alike."""
    exe = paddle.static.Executor()
    feed = {name: cases.value_of(name, "float64") for name in given}

    def run(fetch: Any, **moved: Any) -> Any:
        paddle.seed(3)
        return exe.run(main, feed={**feed, **moved}, fetch_list=[fetch])[0]

    height = abs(float(run(total)))
    if not math.isfinite(height):
        return
    for name, slope in slopes.items():
        way = 1e-6 * np.linspace(0.3, -1.0, feed[name].size).reshape(feed[name].shape)
        found = 0.0 if slope is None else (run(slope) * way).sum() / 1e-6
        right = (run(total, **{name: feed[name] + way}) - run(total, **{name: feed[name] - way})) / 2e-6
        assert found == pytest.approx(float(right), rel=2e-5, abs=2e-5 + 1e-9 * height), name


# ---------------------------------------------------------------------- draws
def run(build: Any, seed: int = 11, **feeds: Any) -> Any:
    """The values of `build` of Variables of the feeds; sizes that are fed are not declared."""
    paddle.seed(seed)
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        made = {
            name: paddle.static.data(name, [None] * array.ndim, str(array.dtype))
            for name, array in feeds.items()
        }
        found = build(**made)
    several = isinstance(found, (list, tuple))
    arrays = paddle.static.Executor().run(main, feed=feeds, fetch_list=list(found) if several else [found])
    return arrays if several else arrays[0]


PARAMETERS = {
    "a": np.array([[0.4, 1.5], [2.5, 0.8]]),
    "b": np.array([[1.2, 0.6], [0.9, 3.0]]),
    "p": np.array([[0.2, 0.7], [0.5, 0.9]]),
    "w": np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
}
DRAWN = [
    "Normal(a, b)", "Laplace(a, b)", "Gumbel(a, b)", "Bernoulli(p)", "Geometric(p)", "Beta(a, b)",
    "Dirichlet(a)", "Multinomial(7, w)", "LogNormal(a / 4, b / 4)", "Independent(D.Normal(a, b), 1)",
]  # fmt: skip
COUNT = 20_000


@pytest.mark.parametrize("text", DRAWN)
def test_moments_of_draws(text: str) -> None:
    feeds = {name: value for name, value in PARAMETERS.items() if name in text.partition("(")[2]}

    def build(**given: Any) -> Any:
        made = eval(f"D.{text}", {"D": D, **given})
        return made.sample([COUNT]), made.mean, made.variance

    drawn, mean, variance = run(build, **feeds)
    assert drawn.dtype == np.float64 and drawn.shape == (COUNT, *mean.shape)
    error = 5.0 * np.sqrt(variance / COUNT)
    assert (abs(drawn.mean(0) - mean) < error).all()
    # the error of a variance goes with the fourth moment
    fourth = ((drawn - mean) ** 4).mean(0)
    assert (abs(drawn.var(0) - variance) < 5.0 * np.sqrt(fourth / COUNT)).all()


def test_quartiles_of_cauchy_and_uniform() -> None:
    """Neither has a mean and a variance here."""
    a, b = PARAMETERS["a"], PARAMETERS["b"]
    drawn = run(lambda a, b: D.Cauchy(a, b).sample([COUNT]), a=a, b=b)
    np.testing.assert_allclose(np.quantile(drawn, [0.25, 0.5, 0.75], 0), [a - b, a, a + b], atol=0.15)
    drawn = run(lambda a, b: D.Uniform(a, a + b).sample([COUNT]), a=a, b=b)
    np.testing.assert_allclose(np.quantile(drawn, [0, 0.5, 1], 0), [a, a + b / 2, a + b], atol=0.05)


def test_classes_come_by_softmax() -> None:
    """In their order: the shape of the sample, then the batch."""
    logits = np.log(PARAMETERS["w"])
    drawn = run(lambda x: D.Categorical(x).sample([COUNT, 2]), x=logits)
    assert drawn.shape == (COUNT, 2, 2) and drawn.dtype == np.int64
    shares = (drawn[..., None] == np.arange(3)).mean((0, 1))
    np.testing.assert_allclose(shares, PARAMETERS["w"], atol=0.02)


def test_relaxed_trials() -> None:
    p = PARAMETERS["p"]
    logits = run(lambda p: D.Bernoulli(p).rsample([COUNT], 0.5), p=p)
    np.testing.assert_allclose((logits > 0).mean(0), p, atol=0.02)
    np.testing.assert_allclose(np.median(logits, 0), np.log(p / (1 - p)) / 0.5, atol=0.2)


@pytest.mark.parametrize("text", [*DRAWN, "Uniform(a, b)", "Cauchy(a, b)", "Categorical(w)"])
def test_a_seed_says_what_is_drawn(text: str) -> None:
    feeds = {name: value for name, value in PARAMETERS.items() if name in text.partition("(")[2]}

    def draw(seed: int) -> Any:
        return run(lambda **given: eval(f"D.{text}", {"D": D, **given}).sample([9]), seed, **feeds)

    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


@pytest.mark.parametrize("cls", [D.Normal, D.Uniform])
def test_a_seed_of_a_sample(cls: Any) -> None:
    """It is that sample's alone."""
    one, two, other = run(lambda: [cls(0.0, 1.0).sample([5], seed) for seed in (3, 3, 4)])
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_shares_of_small_concentrations() -> None:
    """Gamma numbers of 0.001 are mostly below the smallest float: all shares would be 0 / 0."""
    alpha = np.full([4], 1e-3, "float32")
    shares = run(lambda x: D.Dirichlet(x).sample([4000]), x=alpha)
    assert shares.dtype == np.float32
    np.testing.assert_allclose(shares.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(shares.mean(0), 0.25, atol=0.03)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_concentrations_are_above_zero(wrong: float) -> None:
    with pytest.raises(ShapeError, match="op 'dirichlet': Alpha must hold finite numbers above 0, but has"):
        run(lambda x: D.Dirichlet(x).sample(), x=np.array([1.0, wrong]))


# ---------------------------------------------------------------------- right, where 2.6.2 is not
def test_divergence_of_geometric_is_of_all_trials() -> None:
    p, q = np.array([0.2, 0.9]), np.array([0.5, 0.4])
    k = np.arange(400)[:, None]
    chances = (1 - p) ** k * p
    logs = k * np.log((1 - p) / (1 - q)) + np.log(p / q)
    found = run(lambda p, q: D.kl_divergence(D.Geometric(p), D.Geometric(q)), p=p, q=q)
    np.testing.assert_allclose(found, (chances * logs).sum(0), rtol=1e-10)


@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_affine_transforms_of_events(shape: tuple[int, ...]) -> None:
    """One scale for three numbers counts three times."""
    m, v = np.array([1.0, 2.0, 3.0]), np.array([0.5, 3.0, 9.0])
    scale = np.full(shape, 2.0)

    def build(m: Any, v: Any, scale: Any) -> Any:
        base = D.Independent(D.Normal(paddle.reshape(m, [3]), paddle.ones([3], "float64")), 1)
        return D.TransformedDistribution(base, [D.AffineTransform(scale * 0.0, scale)]).log_prob(v)

    normal = -0.5 * (v / 2.0 - m) ** 2 - 0.5 * math.log(2 * math.pi) - math.log(2.0)
    np.testing.assert_allclose(run(build, m=m, v=v, scale=scale), normal.sum(), rtol=1e-10)


def test_normals_become_shares() -> None:
    """The transform takes the batch as an event, which 2.6.2 fails at."""
    x = np.array([[0.5, -0.2], [1.0, 0.3]])

    def build(x: Any) -> Any:
        x = paddle.reshape(x, [2, 2])
        base = D.Normal(x, paddle.full([2, 2], 0.5, "float64"))
        made = D.TransformedDistribution(base, [D.StickBreakingTransform()])
        assert (made.batch_shape, made.event_shape) == ((2,), (3,))
        return made.log_prob(D.StickBreakingTransform().forward(x))

    found = run(build, x=x)

    def forward(x: Any) -> Any:
        broken = 1 / (1 + np.exp(-(x - np.log([2.0, 1.0]))))
        return np.array([broken[0], broken[1] * (1 - broken[0])])

    for row, density in zip(x, found, strict=True):
        steps = 1e-6 * np.eye(2)
        slopes = [(forward(row + step) - forward(row - step)) / 2e-6 for step in steps]
        normal = 2 * (-0.5 * math.log(2 * math.pi) - math.log(0.5))
        assert density == pytest.approx(normal - np.log(abs(np.linalg.det(slopes))), rel=1e-6)


FAR = {
    "Gumbel(x * 0, x * 0 + 1).log_prob(x)": ([-8.0, 120.0], [-8.0, 120.0], lambda x: -x - np.exp(-x)),
    "Geometric(x).log_pmf(2000)": ([0.5, 0.9], None, lambda p: 2000 * np.log1p(-p) + np.log(p)),
    "Geometric(x).entropy()": ([1.0], None, lambda p: 0 * p),
    "Beta(x, x).log_prob(x * 0)": ([1.0], None, lambda x: 0 * x),
    "SoftmaxTransform().forward(x)": ([[0.0, 1.0], [0.0, 900.0]], None,
                                      lambda x: np.array([[1, math.e], [0, 1 + math.e]]) / (1 + math.e)),
    "Multinomial(3, x).entropy()": ([0.0, 0.5, 0.5], None,
                                    lambda x: -np.sum([c * np.log(c) for c in [1 / 8, 3 / 8] * 2])),
    "Multinomial(3, x).log_prob(x * 0 + 1)": ([0.0, 0.5, 0.5], None, lambda x: -math.inf),
    "Multinomial(2, x).log_prob((x > 0) * 1.0)": ([0.0, 0.5, 0.5], None, lambda x: math.log(0.5)),
}  # fmt: skip


@pytest.mark.parametrize("text", FAR)
def test_far_out_and_at_the_edge(text: str) -> None:
    values, _, right = FAR[text]
    found = run(lambda x: eval(f"D.{text}", {"D": D, "x": x}), x=np.array(values))
    np.testing.assert_allclose(found, right(np.array(values)), rtol=1e-8, atol=1e-12)


def test_densities_of_two_in_one_program() -> None:
    """Each has a variable of its own."""
    found = run(lambda: D.Normal(0.0, 1.0).log_prob(paddle.ones([1])) - D.Normal(0.0, 2.0).entropy())
    both = -0.5 - math.log(2 * math.pi) / 2 - (0.5 + math.log(2 * math.pi) / 2 + math.log(2.0))
    np.testing.assert_allclose(found, [both], rtol=1e-6)


@pytest.mark.parametrize("cls", [D.Normal, D.Uniform, D.Cauchy, D.Laplace, D.Gumbel])
def test_parameters_of_two_shapes(cls: Any) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        made = cls(paddle.zeros([3]), paddle.ones([2, 1]))
        drawn = made.sample([4])
    assert made.batch_shape == (2, 3) and tuple(drawn.shape) == (4, 2, 3)
    (found,) = paddle.static.Executor().run(main, fetch_list=[drawn])
    assert len(set(found.reshape(-1).tolist())) == 24  # each of them drawn for itself


# ---------------------------------------------------------------------- sizes that only a run knows
OPEN = [
    "Normal(a, b).sample([3])", "Normal(a, b).rsample([3])", "Normal(a, b).entropy()",
    "Uniform(a, a + b).sample([3])", "Laplace(a, b).rsample([3])", "Cauchy(a, b).rsample([3])",
    "Gumbel(a, b).rsample([3])", "Bernoulli(p).sample([3])", "Bernoulli(p).rsample([3])",
    "Geometric(p).sample([3])", "Beta(a, b).sample([3])", "LogNormal(a, b).rsample([3])",
    "Beta(a, b).entropy()", "kl_divergence(D.Normal(a, b), D.Normal(b, a))", "Laplace(a, b).log_prob(b)",
    "Bernoulli(p).cdf(a)", "Cauchy(a, 1.5).cdf(b)", "StickBreakingTransform().inverse(p)",
]  # fmt: skip


@pytest.mark.parametrize("text", OPEN)
def test_open_sizes(text: str) -> None:
    """The values are those of a program with declared sizes."""
    feeds = {name: PARAMETERS[name] for name in "abp" if name in text.replace("cdf", "").replace("beta", "")}

    def build(sizes: list[int | None]) -> Any:
        paddle.seed(5)
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            given = {name: paddle.static.data(name, sizes, "float64") for name in feeds}
            found = eval(f"D.{text}", {"D": D, **given})
        return paddle.static.Executor().run(main, feed=feeds, fetch_list=[found])[0]

    open_, closed = build([None, 2]), build([2, 2])
    np.testing.assert_array_equal(open_, closed)


# ---------------------------------------------------------------------- divergences
class Poisson(D.ExponentialFamily):  # type: ignore[misc]
    def __init__(self, rate: Any) -> None:
        self.rate = rate
        super().__init__(rate.shape)

    @property
    def _natural_parameters(self) -> Any:
        return (paddle.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:
        return paddle.exp(x)


class Shares(D.ExponentialFamily):  # type: ignore[misc]
    """Dirichlet's, whose carrier is the product of 1 / share."""

    def __init__(self, concentration: Any) -> None:
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:])

    @property
    def _natural_parameters(self) -> Any:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return paddle.sum(paddle.lgamma(x), -1) - paddle.lgamma(paddle.sum(x, -1))

    @property
    def _mean_carrier_measure(self) -> Any:
        whole = paddle.digamma(paddle.sum(self.concentration, -1, keepdim=True))
        return -paddle.sum(paddle.digamma(self.concentration) - whole, -1)


def test_families_by_the_gradient_of_their_normalizer() -> None:
    a, b = PARAMETERS["a"], PARAMETERS["b"]
    found = run(lambda a, b: D.kl_divergence(Poisson(a), Poisson(b)), a=a, b=b)
    np.testing.assert_allclose(found, a * np.log(a / b) - a + b, rtol=1e-10)

    def build(a: Any, b: Any) -> Any:
        a, b = paddle.reshape(a, [2, 2]), paddle.reshape(b, [2, 2])
        one, other = D.Dirichlet(a), D.Dirichlet(b)
        mine = Shares(a).entropy(), D.kl_divergence(Shares(a), Shares(b))
        return [*mine, one.entropy(), D.kl_divergence(one, other)]

    entropy, divergence, right, right_divergence = run(build, a=a, b=b)
    np.testing.assert_allclose(entropy, right, rtol=1e-10)
    np.testing.assert_allclose(divergence, right_divergence, rtol=1e-10)


def test_entropies_of_families_have_gradients() -> None:
    """Of the parameters that the distribution was made of."""

    def build(a: Any) -> Any:
        a.stop_gradient = False
        rates = paddle.reshape(a, [2, 2])
        made, right = Shares(rates), D.Dirichlet(rates)
        return [paddle.static.gradients([one.entropy()], [a])[0] for one in (made, right)]

    found, right = run(build, a=PARAMETERS["a"])
    np.testing.assert_allclose(found, right, rtol=1e-4)


def test_the_nearest_classes_have_the_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(D.kl, "_FUNCTIONS", dict(D.kl._FUNCTIONS))

    class One(D.Normal):  # type: ignore[misc]
        pass

    class Two(One):
        pass

    one, two, normal = One(0.0, 1.0), Two(0.0, 1.0), D.Normal(0.0, 1.0)
    D.register_kl(One, D.Normal)(lambda p, q: "one, normal")
    assert D.kl_divergence(two, normal) == D.kl_divergence(one, two) == "one, normal"
    assert isinstance(D.kl_divergence(normal, two), paddle.Tensor)
    D.register_kl(D.Normal, Two)(lambda p, q: "normal, two")
    with pytest.warns(RuntimeWarning, match=r"may be that of \(One, Normal\) or of \(Normal, Two\)"):
        assert D.kl_divergence(two, two) == "one, normal"
    with pytest.raises(NotImplementedError, match=r"register_kl\(Normal, Cauchy\) has no function"):
        D.kl_divergence(normal, D.Cauchy(0.0, 1.0))


# ---------------------------------------------------------------------- variables and shapes
def test_constraints() -> None:
    x = np.array([[0.25, 0.75], [-0.5, 1.5], [0.5, np.nan]])

    def build(x: Any) -> Any:
        x = paddle.reshape(x, [3, 2])
        variable, constraint = D.variable, D.constraint
        return [
            constraint.real(x), constraint.positive(x), constraint.Range(0.0, 1.0)(x), constraint.simplex(x),
            variable.Independent(variable.positive, 1).constraint(x),
            variable.Stack([variable.positive, variable.real], 1).constraint(x),
        ]  # fmt: skip

    real, positive, between, simplex, rows, stacked = run(build, x=x)
    np.testing.assert_array_equal(real, [[1, 1], [1, 1], [1, 0]])
    np.testing.assert_array_equal(positive, [[1, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal(between, [[1, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(simplex, [1, 0, 0])
    np.testing.assert_array_equal(rows, [1, 0, 0])
    np.testing.assert_array_equal(stacked, [[1, 1], [0, 1], [1, 0]])


def test_shapes_go_back_through_chains() -> None:
    chain = D.ChainTransform([D.StickBreakingTransform(), D.ReshapeTransform((4,), (2, 2))])
    assert chain.forward_shape((5, 3)) == (5, 2, 2)
    assert chain.inverse_shape((5, 2, 2)) == (5, 3)
    assert D.ReshapeTransform((), (1,)).forward_shape((3,)) == (3, 1)


def test_transforms_of_one_direction() -> None:
    """A determinant of the inverse serves both."""

    class Halved(D.Transform):  # type: ignore[misc]
        def _forward(self, x: Any) -> Any:
            return x * 0.5

        def _inverse(self, y: Any) -> Any:
            return y * 2.0

        def _inverse_log_det_jacobian(self, y: Any) -> Any:
            return paddle.full_like(y, math.log(2.0))

    x = np.array([1.0, 2.0])
    one, other = run(
        lambda x: [Halved().forward_log_det_jacobian(x), Halved()(D.Normal(x, x)).log_prob(x)], x=x
    )
    np.testing.assert_allclose(one, [-math.log(2.0)] * 2)
    normal = -0.5 * ((2 * x - x) / x) ** 2 - np.log(x) - 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(other, normal + math.log(2.0), rtol=1e-6)


def test_integers_become_floats_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="int64 becomes float32"):
        made = D.Normal([1, 2], 1.0)
    assert made.loc.dtype == paddle.float32
    with pytest.warns(UserWarning, match="float64, and becomes float32"):
        made.log_prob(paddle.static.data("x", [2], "float64"))


def test_draws_train() -> None:
    """Gradients of a divergence, estimated by draws, move one distribution to another."""
    paddle.seed(1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        loc = paddle.create_parameter([1], "float32", default_initializer=paddle.nn.initializer.Constant(3.0))
        made, wanted = D.Normal(loc, paddle.ones([1])), D.Normal([-1.0], [1.0])
        drawn = made.rsample([64])
        loss = paddle.mean(made.log_prob(drawn) - wanted.log_prob(drawn))
        paddle.optimizer.Adam(0.2).minimize(loss)
    exe = paddle.static.Executor()
    exe.run(startup)
    for _ in range(60):
        (value,) = exe.run(main, fetch_list=[loc])
    assert value[0] == pytest.approx(-1.0, abs=0.15)
