"""Data sets with a length and an index, and how their samples are put into batches."""

from __future__ import annotations

from fluidlite.dataloader.batch_sampler import BatchSampler
from fluidlite.dataloader.dataloader_iter import default_collate_fn
from fluidlite.dataloader.dataset import Dataset

__all__ = ["BatchSampler", "Dataset", "default_collate_fn"]
