# written by tests/house/stubs.py
"""`paddle.io`: data sets, samplers and loaders"""

from fluidlite.paddle.io.datasets import ChainDataset as ChainDataset
from fluidlite.paddle.io.datasets import ComposeDataset as ComposeDataset
from fluidlite.paddle.io.datasets import ConcatDataset as ConcatDataset
from fluidlite.paddle.io.datasets import Dataset as Dataset
from fluidlite.paddle.io.datasets import IterableDataset as IterableDataset
from fluidlite.paddle.io.datasets import Subset as Subset
from fluidlite.paddle.io.datasets import TensorDataset as TensorDataset
from fluidlite.paddle.io.datasets import random_split as random_split
from fluidlite.paddle.io.loader import DataLoader as DataLoader
from fluidlite.paddle.io.samplers import BatchSampler as BatchSampler
from fluidlite.paddle.io.samplers import DistributedBatchSampler as DistributedBatchSampler
from fluidlite.paddle.io.samplers import RandomSampler as RandomSampler
from fluidlite.paddle.io.samplers import Sampler as Sampler
from fluidlite.paddle.io.samplers import SequenceSampler as SequenceSampler
from fluidlite.paddle.io.samplers import SubsetRandomSampler as SubsetRandomSampler
from fluidlite.paddle.io.samplers import WeightedRandomSampler as WeightedRandomSampler
from fluidlite.paddle.io.workers import get_worker_info as get_worker_info
