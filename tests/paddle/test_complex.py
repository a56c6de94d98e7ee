"""Complex numbers in programs of 2.x: values as NumPy's, gradients as differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import UnsupportedError
from fluidlite.paddle.nn import functional as F

RNG = np.random.RandomState(3)
A, B = RNG.uniform(0.3, 1, (2, 3)), RNG.uniform(0.3, 1, (2, 3))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "multiply": (lambda z: z * z, lambda z: z * z),
    "divide": (lambda z: z / (z + z * z), lambda z: z / (z + z * z)),
    "exp": (paddle.exp, np.exp),
    "log": (paddle.log, np.log),
    "sqrt": (paddle.sqrt, np.sqrt),
    "square": (paddle.square, np.square),
    "tanh": (paddle.tanh, np.tanh),
    "sin": (paddle.sin, np.sin),
    "cumsum": (lambda z: paddle.cumsum(z * z), lambda z: np.cumsum(z * z)),
    "sum": (lambda z: paddle.sum(z * z, axis=1), lambda z: (z * z).sum(1)),
    "conj": (lambda z: paddle.conj(z) * z * z, lambda z: np.conj(z) * z * z),
    "abs": (paddle.abs, np.abs),
    "angle": (paddle.angle, np.angle),
    "matmul": (lambda z: paddle.matmul(z, paddle.transpose(z, [1, 0])), lambda z: z @ z.T),
    "concat": (lambda z: paddle.concat([z, z * z]), lambda z: np.concatenate([z, z * z])),
    "gather": (lambda z: (z * z)[[1, 1, 0]], lambda z: (z * z)[[1, 1, 0]]),
    "fft of fft": (
        lambda z: paddle.fft.fft(paddle.fft.ifft(z, axis=0) * z),
        lambda z: np.fft.fft(np.fft.ifft(z, axis=0) * z),
    ),
    "irfft": (paddle.fft.irfft, np.fft.irfft),
    "hfftn": (lambda z: paddle.fft.hfftn(z, [3, 5]), lambda z: np.fft.hfft(np.fft.fft(_wide(z), axis=0), 5)),
}


def _wide(z: Any) -> Any:
    return np.concatenate([z, np.zeros((1, 3))])


def loss_of(out: Any) -> Any:
    """A real number that depends on all parts of an output."""
    if out.dtype not in (paddle.complex64, paddle.complex128):
        return paddle.sum(out * out)
    parts = paddle.as_real(out)
    return paddle.sum(parts * parts * parts)


def loss_by_numpy(out: Any) -> float:
    """The same of NumPy's numbers."""
    if not np.iscomplexobj(out):
        return float((out * out).sum())
    return float((out.real**3).sum() + (out.imag**3).sum())


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str, naive: bool) -> None:
    build, by_numpy = FUNCTIONS[name]
    a, b = (paddle.static.data(key, [2, 3], "float64") for key in "ab")
    a.stop_gradient = b.stop_gradient = False
    out = build(paddle.complex(a, b))
    grads = paddle.static.gradients([loss_of(out)], [a, b])
    exe = paddle.static.Executor()
    exe.naive = naive
    value, *found = exe.run(feed={"a": A, "b": B}, fetch_list=[out, *grads])
    np.testing.assert_allclose(value, by_numpy(A + 1j * B), rtol=1e-12, atol=1e-12)
    for number, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, slopes(by_numpy, number), rtol=1e-6, atol=1e-7)


def slopes(by_numpy: Callable[[Any], Any], number: int) -> Any:
    """Central differences of the loss by the real (0) or the imaginary parts (1)."""
    found = np.zeros(A.shape)
    for place in np.ndindex(A.shape):
        sums = []
        for step in (1e-6, -1e-6):
            moved = [A.copy(), B.copy()]
            moved[number][place] += step
            sums.append(loss_by_numpy(by_numpy(moved[0] + 1j * moved[1])))
        found[place] = (sums[0] - sums[1]) / 2e-6
    return found


def test_real_transforms_of_volumes() -> None:
    x = paddle.static.data("x", [2, 3, 4], "float64")
    x.stop_gradient = False
    out = paddle.fft.hfftn(paddle.fft.ihfftn(x))
    (grad,) = paddle.static.gradients([paddle.sum(out * out)], [x])
    value = RNG.uniform(-1, 1, (2, 3, 4))
    found, gradient = paddle.static.Executor().run(feed={"x": value}, fetch_list=[out, grad])
    np.testing.assert_allclose(found, value, rtol=1e-12)
    np.testing.assert_allclose(gradient, 2 * value, rtol=1e-12)


@pytest.mark.parametrize("onesided", [False, True])
def test_signals_come_back_from_their_spectra(onesided: bool) -> None:
    x = paddle.static.data("x", [2, 40], "float64")
    x.stop_gradient = False
    window = paddle.to_tensor(np.hanning(6) + 0.1)
    spectra = paddle.signal.stft(x, 8, 3, 6, window, onesided=onesided)
    back = paddle.signal.istft(spectra, 8, 3, 6, window, onesided=onesided)
    (grad,) = paddle.static.gradients([paddle.sum(back * back)], [x])
    value = RNG.uniform(-1, 1, (2, 40))
    found, gradient = paddle.static.Executor().run(feed={"x": value}, fetch_list=[back, grad])
    np.testing.assert_allclose(found, value[:, : found.shape[1]], rtol=1e-10)
    np.testing.assert_allclose(gradient[:, : found.shape[1]], 2 * found, rtol=1e-10)


def test_one_signal_has_one_spectrum() -> None:
    x = paddle.static.data("x", [16])
    assert paddle.signal.stft(x, 8, 4).shape == (5, 5)


def test_what_is_refused() -> None:
    a = paddle.static.data("a", [2], "complex64")
    a.stop_gradient = False
    (first,) = paddle.static.gradients([paddle.real(a * a * a)], [a])
    with pytest.raises(UnsupportedError, match="its values are complex"):
        paddle.static.gradients([paddle.real(first)], [a])
    with pytest.raises(TypeError, match="'x' in mean must be .* received complex64"):
        paddle.mean(a)


@pytest.mark.parametrize("one, other", [(12, 18), (0, 5), (0, 0), (-4, 6), (7, 7), (2**31, 6)])
def test_divisors(one: int, other: int) -> None:
    x, y = (paddle.static.data(key, [1], "int64") for key in "xy")
    feed = {"x": np.array([one]), "y": np.array([other])}
    found = paddle.static.Executor().run(feed=feed, fetch_list=[paddle.gcd(x, y), paddle.lcm(x, y)])
    assert [int(value[0]) for value in found] == [np.gcd(one, other), np.lcm(one, other)]


@pytest.mark.parametrize("padding", ["SAME", [1, 0, 0, 1], [[0, 0], [0, 0], [0, 1], [2, 0]]])
def test_places_of_the_largest_with_uneven_borders(padding: Any) -> None:
    x = paddle.static.data("x", [1, 2, 5, 6], "float64")
    x.stop_gradient = False
    out, mask = F.max_pool2d(x, 3, 2, padding, return_mask=True)
    plain = F.max_pool2d(x, 3, 2, padding)
    grads = [paddle.static.gradients([paddle.sum(one * one)], [x])[0] for one in (out, plain)]
    value = RNG.permutation(60).reshape(1, 2, 5, 6) - 100.0
    got = paddle.static.Executor().run(feed={"x": value}, fetch_list=[out, mask, plain, *grads])
    np.testing.assert_array_equal(got[0], got[2])
    np.testing.assert_array_equal(
        np.take_along_axis(value.reshape(2, -1), got[1].reshape(2, -1), 1).ravel(), got[0].ravel()
    )
    np.testing.assert_array_equal(got[3], got[4])
