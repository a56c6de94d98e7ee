"""`paddle.io`: data sets, samplers and loaders"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.io"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HOME}.datasets": "ChainDataset ComposeDataset ConcatDataset Dataset IterableDataset Subset "
        "TensorDataset random_split",
        f"{_HOME}.samplers": "BatchSampler DistributedBatchSampler RandomSampler Sampler SequenceSampler "
        "SubsetRandomSampler WeightedRandomSampler",
        f"{_HOME}.loader": "DataLoader",
        f"{_HOME}.workers": "get_worker_info",
    },
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
