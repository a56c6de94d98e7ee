# written by tests/house/stubs.py
"""`paddle.dataset`: readers of data sets.

Their files lie in `~/.cache/paddle/dataset`, as in 1.8.5; nothing is downloaded."""

from fluidlite.paddle.dataset import cifar as cifar
from fluidlite.paddle.dataset import common as common
from fluidlite.paddle.dataset import conll05 as conll05
from fluidlite.paddle.dataset import flowers as flowers
from fluidlite.paddle.dataset import image as image
from fluidlite.paddle.dataset import imdb as imdb
from fluidlite.paddle.dataset import imikolov as imikolov
from fluidlite.paddle.dataset import mnist as mnist
from fluidlite.paddle.dataset import movielens as movielens
from fluidlite.paddle.dataset import mq2007 as mq2007
from fluidlite.paddle.dataset import sentiment as sentiment
from fluidlite.paddle.dataset import uci_housing as uci_housing
from fluidlite.paddle.dataset import voc2012 as voc2012
from fluidlite.paddle.dataset import wmt14 as wmt14
from fluidlite.paddle.dataset import wmt16 as wmt16
