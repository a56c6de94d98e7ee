"""`paddle.vision.transforms` beside 2.6.2."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest
from golden.transform_cases import pixels, results
from PIL import Image

import fluidlite.paddle.vision.transforms as T
from fluidlite.base.errors import MissingExtraError

RECORDED = np.load(pathlib.Path(__file__).parents[1] / "golden" / "transforms.npz")


@pytest.fixture(scope="module")
def found() -> dict[str, np.ndarray]:
    return results(T, Image)


@pytest.mark.parametrize("name", RECORDED.files)
def test_as_recorded(name: str, found: dict[str, np.ndarray]) -> None:
    """Pictures to the bit; arrays within one step, which OpenCV's fixed point arithmetic rounds elsewhere."""
    expected = RECORDED[name]
    assert (found[name].shape, found[name].dtype) == (expected.shape, expected.dtype)
    apart = np.abs(found[name].astype("float64") - expected)
    if "erspective" in name:
        # its numbers solve equations, whose last bits are the processor's: a pixel that lies between two is
        # either
        assert (apart.max(axis=-1) > 0).mean() <= 0.01
        return
    assert apart.max() <= (1 if name.endswith("_array") else 1e-7 * max(1, np.abs(expected).max()))


def test_arrays_take_the_way_of_pictures() -> None:
    for change in (
        lambda x: T.rotate(x, 25, "bilinear", True),
        lambda x: T.affine(x, 10, (1, 2), 0.9, 3, fill=4),
        lambda x: T.perspective(x, [[0, 0], [9, 0], [9, 9], [0, 9]], [[1, 1], [9, 0], [8, 9], [0, 9]]),
        lambda x: T.resize(x, (5, 6), "bicubic"),
    ):
        np.testing.assert_array_equal(change(pixels()), np.asarray(change(Image.fromarray(pixels()))))
    plane = pixels()[:, :, :1].astype("float32")
    assert T.rotate(plane, 90, expand=True).shape == (15, 12, 1)
    assert T.rotate(plane, 90, expand=True).dtype == np.float32


def test_saturation_of_arrays() -> None:
    grey = T.adjust_saturation(pixels(), 0)
    assert np.ptp(grey, axis=2).max() == 0
    np.testing.assert_array_equal(T.adjust_saturation(pixels(), 1), pixels())


def test_a_sample_of_several_kinds() -> None:
    class Halved(T.BaseTransform):
        def _apply_image(self, img: np.ndarray) -> np.ndarray:
            return img[::2, ::2]

        def _apply_boxes(self, boxes: np.ndarray) -> np.ndarray:
            return boxes / 2

    image, boxes, label = T.Compose([Halved(("image", "boxes"))])((pixels(), np.array([[2.0, 4, 6, 8]]), 7))
    assert image.shape == (6, 8, 3) and boxes.tolist() == [[1, 2, 3, 4]] and label == 7
    with pytest.raises(TypeError, match="Halved does not support entries of kind mask"):
        Halved(("mask",))(pixels())
    with pytest.raises(NameError, match="'sound'"):
        Halved(("sound",))


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: T.resize(pixels(), 5, "cubic"), ValueError),
        (lambda: T.pad(pixels(), (1, 2, 3)), ValueError),
        (lambda: T.pad(pixels(), 1, padding_mode="mirror"), ValueError),
        (lambda: T.adjust_hue(pixels(), 0.6), ValueError),
        (lambda: T.to_grayscale(pixels(), 2), ValueError),
        (lambda: T.affine(pixels(), 0, (0, 0), 0, 0), ValueError),
        (lambda: T.normalize(pixels(), 0, 1, "NCHW"), ValueError),
        (lambda: T.to_tensor([1, 2]), TypeError),
        (lambda: T.to_tensor(np.zeros(3)), TypeError),
        (lambda: T.HueTransform(0.7), ValueError),
        (lambda: T.BrightnessTransform(-1), ValueError),
        (lambda: T.RandomHorizontalFlip(2), ValueError),
        (lambda: T.RandomRotation((1, 2, 3)), ValueError),
        (lambda: T.RandomErasing(value="noise"), ValueError),
    ],
)
def test_wrong_use(wrong: object, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        wrong()  # type: ignore[operator]


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"fluidlite\[vision\]"):
        T.rotate(pixels(), 3)
