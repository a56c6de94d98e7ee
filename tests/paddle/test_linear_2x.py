"""Linear algebra of 2.x that is better here than in 2.6.2: by NumPy, and gradients by central differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle

Function = Callable[..., Any]
RANDOM = np.random.RandomState(0)
SQUARE = RANDOM.randn(3, 3)
BATCH = RANDOM.randn(2, 3, 3)
OBSERVED = RANDOM.randn(3, 5)
# positive definite, both of its triangles
UNEQUAL = np.array([[4, 1, 0.5], [0.2, 3, 0.3], [0.1, 0.7, 5]])
COUNTS, SHARES = np.array([1, 2, 3, 1, 2]), np.array([1.0, 2, 3, 1, 0.5])


@pytest.fixture(autouse=True, params=["plan", "naive"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An executor of plans, and one that runs ops one by one."""
    found = paddle.static.Executor()
    found.naive = request.param == "naive"
    return found


def built(function: Function, *arrays: np.ndarray, unknown: bool = False) -> tuple[Any, list[Any]]:
    """A program of a function: its value, the sum of its products with cosines, gradients of that."""
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        feeds = []
        for number, array in enumerate(arrays):
            shape = [-1] * array.ndim if unknown else list(array.shape)
            feeds.append(paddle.static.data(f"x{number}", shape, str(array.dtype)))
            feeds[-1].stop_gradient = array.dtype.kind != "f"
        out = function(*feeds)
        if not unknown:
            weights = np.cos(np.arange(int(np.prod(out.shape)))).reshape(out.shape)
            loss = paddle.sum(out * paddle.to_tensor(weights))
        else:
            loss = paddle.sum(out)
        wrt = [var for var in feeds if not var.stop_gradient]
        found = [one for one in paddle.static.gradients([loss], wrt) if one is not None]
    return main, [out, loss, *found]


def run(executor: Any, function: Function, *arrays: np.ndarray, unknown: bool = False) -> list[np.ndarray]:
    """The value of a function, the sum of its products with cosines, and the gradients of that."""
    main, fetches = built(function, *arrays, unknown=unknown)
    feed = {f"x{number}": array for number, array in enumerate(arrays)}
    return list(executor.run(main, feed=feed, fetch_list=fetches))


def check(executor: Any, function: Function, *arrays: np.ndarray) -> np.ndarray:
    """The value of a function, whose gradients are those of differences along each element."""
    main, fetches = built(function, *arrays)
    feed = {f"x{number}": array for number, array in enumerate(arrays)}
    value, _, *gradients = executor.run(main, feed=feed, fetch_list=fetches)
    floats = [name for name, array in feed.items() if array.dtype.kind == "f"]
    assert len(gradients) == len(floats)
    for name, gradient in zip(floats, gradients, strict=True):
        slopes = np.zeros(feed[name].shape)
        for place in np.ndindex(*slopes.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = feed[name].copy()
                moved[place] += step
                ends += executor.run(main, feed={**feed, name: moved}, fetch_list=[fetches[1]])
            slopes[place] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)
    return np.asarray(value)


def test_eig_has_the_eigenvalues_and_vectors(executor: Any) -> None:
    values = check(executor, lambda x: paddle.abs(paddle.linalg.eig(x)[0]), BATCH)
    np.testing.assert_allclose(values, np.abs(np.linalg.eig(BATCH)[0]))
    vectors = check(executor, lambda x: paddle.real(paddle.linalg.eig(x)[1]), BATCH)
    np.testing.assert_allclose(vectors, np.linalg.eig(BATCH)[1].real)


def test_eigvals_are_complex_whatever_they_are(executor: Any) -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [-1, -1], "float32")
        values = paddle.linalg.eigvals(x)
        assert "COMPLEX64" in str(values.dtype)
        assert values.shape == (-1,)
        (found,) = executor.run(feed={"x": np.diag([1, 2]).astype("float32")}, fetch_list=[values])
    assert found.dtype == np.complex64
    np.testing.assert_array_equal(found, [1, 2])
    with pytest.raises(TypeError, match="received int64"):
        paddle.linalg.eig(paddle.static.data("i", [2, 2], "int64"))


@pytest.mark.parametrize("upper", [False, True])
def test_one_triangle_is_read_and_has_the_gradient(executor: Any, upper: bool) -> None:
    whole = np.triu(UNEQUAL) + np.triu(UNEQUAL, 1).T if upper else np.tril(UNEQUAL) + np.tril(UNEQUAL, -1).T
    factor = check(executor, lambda x: paddle.linalg.cholesky(x, upper=upper), UNEQUAL)
    np.testing.assert_allclose(factor, np.linalg.cholesky(whole).T if upper else np.linalg.cholesky(whole))
    side = "U" if upper else "L"
    values = check(executor, lambda x: paddle.linalg.eigvalsh(x, side), UNEQUAL)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(whole))
    check(executor, lambda x: paddle.abs(paddle.linalg.eigh(x, side)[1]), UNEQUAL)
    if not upper:
        inverse = check(executor, lambda x: paddle.linalg.pinv(x, hermitian=True), UNEQUAL)
        np.testing.assert_allclose(inverse, np.linalg.inv(whole))


@pytest.mark.parametrize("batch", [(), (2,)])
def test_householder_product_is_q(executor: Any, batch: tuple[int, ...]) -> None:
    x = RANDOM.randn(*batch, 4, 3)
    raw, tau = np.linalg.qr(x, "raw")
    kept = np.swapaxes(raw, -1, -2).copy()
    found = check(executor, paddle.linalg.householder_product, kept, tau)
    np.testing.assert_allclose(found, np.linalg.qr(x)[0], atol=1e-12)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("ddof", [False, True])
def test_cov_and_corrcoef(executor: Any, rows: bool, ddof: bool) -> None:
    x = OBSERVED if rows else OBSERVED.T
    cov = check(executor, lambda x: paddle.linalg.cov(x, rows, ddof), x)
    np.testing.assert_allclose(cov, np.cov(x, rowvar=rows, ddof=int(ddof)))
    correlations = check(executor, lambda x: paddle.linalg.corrcoef(x, rows), x)
    np.testing.assert_allclose(correlations, np.corrcoef(x, rowvar=rows))
    np.testing.assert_allclose(run(executor, paddle.linalg.cov, OBSERVED[0])[0], np.cov(OBSERVED[0]))
    np.testing.assert_allclose(run(executor, paddle.linalg.cov, OBSERVED, unknown=True)[0], np.cov(OBSERVED))


def test_cov_with_weights(executor: Any) -> None:
    cov = paddle.linalg.cov
    found = check(executor, lambda x, f: cov(x, fweights=f), OBSERVED, COUNTS)
    np.testing.assert_allclose(found, np.cov(OBSERVED, fweights=COUNTS))
    found = check(executor, lambda x, f, a: cov(x, fweights=f, aweights=a), OBSERVED, COUNTS, SHARES)
    np.testing.assert_allclose(found, np.cov(OBSERVED, fweights=COUNTS, aweights=SHARES))
    with pytest.raises(ValueError, match="one dimension"):
        run(executor, lambda x: cov(x, aweights=x), OBSERVED)


def test_substitution_keeps_nan_in_its_rows(executor: Any) -> None:
    right = np.array([[1.0, 2], [np.nan, 4], [5, 6]])
    solved = run(executor, paddle.linalg.triangular_solve, np.triu(SQUARE), right)[0]
    np.testing.assert_array_equal(np.isnan(solved), [[1, 0], [1, 0], [0, 0]])
    lower = run(executor, lambda x, y: paddle.linalg.triangular_solve(x, y, upper=False), SQUARE, right)[0]
    np.testing.assert_array_equal(np.isnan(lower), [[0, 0], [1, 0], [1, 0]])


def test_derivatives_that_are_not_there_are_nan(executor: Any) -> None:
    assert np.isnan(run(executor, lambda x: paddle.linalg.qr(x)[0], np.zeros((1, 1)))[-1]).all()


@pytest.mark.parametrize("size", [2, 7])
def test_transforms_of_unknown_sizes_take_n_numbers(executor: Any, size: int) -> None:
    found = run(executor, lambda x: paddle.abs(paddle.fft.rfft(x, size, axis=0)), OBSERVED, unknown=True)[0]
    np.testing.assert_allclose(found, np.abs(np.fft.rfft(OBSERVED, size, axis=0)))


def test_the_diagonal_has_a_gradient(executor: Any) -> None:
    found = check(executor, paddle.diagonal_scatter, SQUARE, np.array([1.0, 2, 3]))
    np.testing.assert_array_equal(np.diag(found), [1, 2, 3])
