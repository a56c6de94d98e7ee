# written by tests/house/stubs.py
"""`paddle.text.datasets`: texts as numbers of words, and two tables."""

from fluidlite.paddle.text.datasets.tables import Movielens as Movielens
from fluidlite.paddle.text.datasets.tables import UCIHousing as UCIHousing
from fluidlite.paddle.text.datasets.translations import WMT14 as WMT14
from fluidlite.paddle.text.datasets.translations import WMT16 as WMT16
from fluidlite.paddle.text.datasets.words import Conll05st as Conll05st
from fluidlite.paddle.text.datasets.words import Imdb as Imdb
from fluidlite.paddle.text.datasets.words import Imikolov as Imikolov
