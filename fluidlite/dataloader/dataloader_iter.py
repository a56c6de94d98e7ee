"""`fluid.dataloader.dataloader_iter`: how samples are put into batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.imported_names import imported_names

__all__ = ["default_collate_fn"]


def default_collate_fn(batch: Sequence[Any]) -> list[Any]:
    """Samples, each a tuple of fields, as one array a field; samples that are arrays themselves as one
    array.
    """
    if isinstance(batch[0], np.ndarray):
        return [np.stack(batch)]
    return [np.stack([np.asarray(value) for value in field]) for field in zip(*batch, strict=True)]


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
