"""Fourier transforms of the 2.x door."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import COMPLEX, FLOATS, functions, kinds, word

NORMS = ("backward", "forward", "ortho")
FROM_REAL = ("rfft", "ihfft")


def _dtypes(base: str) -> tuple[str, ...]:
    if base.startswith(FROM_REAL):
        return FLOATS
    return COMPLEX if base.startswith(("irfft", "hfft")) else kinds("float32 float64 complex64 complex128")


@draws(*(f"paddle.fft.{name}" for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 4), low=2 if draw.flag(0.8) else 1), _dtypes(word(name)))
    count = draw.choice(OMIT, None, draw.int(2, 5))
    norm = draw.maybe(draw.choice(*NORMS))
    return draw.call(name, x, n=count, axis=draw.maybe(draw.axis(x)), norm=norm)


@draws(
    *(f"paddle.fft.{name}{end}" for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"] for end in "2n")
)
def _(draw: Draw, name: str) -> Any:
    shape = draw.shape((2 if name.endswith("2") else 1, 4), low=2)
    x = draw.tensor(shape, _dtypes(word(name)[:-1]))
    count = 2 if name.endswith("2") else draw.int(1, len(shape))
    axes: Any = draw.rng.sample(range(len(shape)), count)
    axes = [at - len(shape) if draw.flag(0.3) else at for at in axes]
    lengths = draw.choice(OMIT, OMIT, [draw.int(2, 5) for _ in axes])
    if lengths is OMIT and draw.flag(0.4):
        axes = OMIT
    norm = draw.maybe(draw.choice(*NORMS))
    given = draw.choice(axes, tuple(axes)) if axes is not OMIT else OMIT
    return draw.call(name, x, s=lengths, axes=given, norm=norm)


@draws("paddle.fft.fftfreq", "paddle.fft.rfftfreq")
def _(draw: Draw, name: str) -> Any:
    return draw.call(
        name,
        draw.int(1, 7),
        d=draw.maybe(draw.choice(0.5, 2.0)),
        dtype=draw.maybe(draw.choice("float32", "float64")),
    )


@draws("paddle.fft.fftshift", "paddle.fft.ifftshift")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=kinds("int32 int64 float32 float64 complex64 complex128"), rank=(1, 4), known=True)
    return draw.call(name, x, axes=draw.choice(OMIT, None, draw.axis(x), draw.axes(x)))


@draws(*functions("stft", "paddle.signal"))
def _(draw: Draw, name: str) -> Any:
    batch, length = draw.shape((0, 1), low=1), draw.int(8, 12)
    x = draw.tensor((*batch, length), FLOATS, known=True)
    count = draw.int(4, 6)
    width = draw.maybe(draw.int(1, count), 0.5)
    window = OMIT
    if draw.flag(0.05):  # 2.6.2 asks the length of the window, which a Variable does not tell
        window = draw.tensor((count if width is OMIT else width,), x.dtype or "", 0.1, 1, known=True)
    return draw.call(
        name,
        x,
        count,
        hop_length=draw.maybe(draw.int(1, 3)),
        win_length=width,
        window=window,
        center=draw.maybe(draw.flag()),
        pad_mode=draw.maybe(draw.choice("reflect", "constant")),
        normalized=draw.maybe(draw.flag()),
        onesided=draw.maybe(draw.flag()),
    )


@draws(*functions("istft", "paddle.signal"))
def _(draw: Draw, name: str) -> Any:
    count, frames = draw.int(4, 6), draw.int(3, 6)
    one_sided = draw.flag(0.7)
    rows = count // 2 + 1 if one_sided else count
    batch = draw.shape((0, 1), low=1)
    x = draw.tensor((*batch, rows, frames), COMPLEX, known=True)
    window = OMIT
    if draw.flag(0.05):
        kind = "float32" if x.dtype == "complex64" else "float64"
        window = draw.tensor((count,), kind, 0.3, 1, known=True, fixed=True)
    return draw.call(
        name,
        x,
        count,
        hop_length=draw.maybe(draw.int(1, max(count // 2, 1)), 0.7),
        window=window,
        center=draw.maybe(draw.flag()),
        normalized=draw.maybe(draw.flag()),
        onesided=draw.maybe(True) if one_sided else False,
        length=draw.maybe(draw.int(count, count + frames), 0.2),
        win_length=draw.maybe(count, 0.2),
        return_complex=draw.maybe(False, 0.2),
    )
