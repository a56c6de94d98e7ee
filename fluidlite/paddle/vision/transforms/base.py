"""Transforms as objects: each also sees the coordinates, boxes and masks that go with an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.paddle.vision.transforms.functional import Picture

__all__ = ["BaseTransform", "Compose"]

_KINDS = ("image", "coords", "boxes", "mask")


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        """`data` through all transforms."""
        for transform in self.transforms:
            data = transform(data)
        return data

    def __repr__(self) -> str:
        lines = "".join(f"\n    {transform}" for transform in self.transforms)
        return f"{type(self).__name__}({lines}\n)"


class BaseTransform:
    """A transform of a sample: an image, or a tuple in which each entry is of one of the kinds that `keys`
    names ("image", "coords", "boxes", "mask"); entries past the keys go through unchanged.

    A subclass gives `_apply_image`, and `_apply_coords`, `_apply_boxes` or `_apply_mask` where it can change
    these. `_get_params` draws what one call has in common for all entries, which then is in `params`.
    """

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        if keys is not None and not isinstance(keys, Sequence):
            raise ValueError(f"keys should be a sequence of strings, but got {keys!r}")
        self.keys = ("image",) if keys is None else tuple(keys)
        for key in self.keys:
            if key not in _KINDS:
                raise NameError(f"a key must be one of {', '.join(_KINDS)}, not {key!r}")
        self.params: Any = None

    def _get_params(self, inputs: tuple[Any, ...]) -> Any:
        """The numbers of one call; none by default."""

    def __call__(self, inputs: Any) -> Any:
        """The sample after the transform: a tuple if it was one."""
        alone = not isinstance(inputs, tuple)
        entries = (inputs,) if alone else inputs
        self.params = self._get_params(entries)
        changed = [self._apply(key, entry) for key, entry in zip(self.keys, entries, strict=False)]
        if alone:
            return changed[0]
        return (*changed, *entries[len(self.keys) :])

    def _apply(self, key: str, entry: Any) -> Any:
        changes = {
            "image": self._apply_image,
            "coords": self._apply_coords,
            "boxes": self._apply_boxes,
            "mask": self._apply_mask,
        }
        return changes[key](entry)

    def _refused(self, kind: str) -> TypeError:
        return TypeError(f"{type(self).__name__} does not support entries of kind {kind}")

    def _apply_image(self, img: Picture) -> Any:
        raise self._refused("image")

    def _apply_coords(self, coords: Any) -> Any:
        raise self._refused("coords")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise self._refused("boxes")

    def _apply_mask(self, mask: Any) -> Any:
        raise self._refused("mask")
