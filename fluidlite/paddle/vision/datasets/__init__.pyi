# written by tests/house/stubs.py
"""`paddle.vision.datasets`: pictures with labels, as data sets for loaders."""

from fluidlite.paddle.vision.datasets import cifar as cifar
from fluidlite.paddle.vision.datasets import flowers as flowers
from fluidlite.paddle.vision.datasets import folder as folder
from fluidlite.paddle.vision.datasets import mnist as mnist
from fluidlite.paddle.vision.datasets import voc2012 as voc2012
from fluidlite.paddle.vision.datasets.cifar import Cifar10 as Cifar10
from fluidlite.paddle.vision.datasets.cifar import Cifar100 as Cifar100
from fluidlite.paddle.vision.datasets.flowers import Flowers as Flowers
from fluidlite.paddle.vision.datasets.folder import DatasetFolder as DatasetFolder
from fluidlite.paddle.vision.datasets.folder import ImageFolder as ImageFolder
from fluidlite.paddle.vision.datasets.mnist import FashionMNIST as FashionMNIST
from fluidlite.paddle.vision.datasets.mnist import MNIST as MNIST
from fluidlite.paddle.vision.datasets.voc2012 import VOC2012 as VOC2012
