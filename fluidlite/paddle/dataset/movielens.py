"""`paddle.dataset.movielens`: ratings of films by people, with facts about both."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from fluidlite.base.records import dataclass
from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.texts import open_packed

__all__ = [
    "MovieInfo",
    "UserInfo",
    "age_table",
    "fetch",
    "get_movie_title_dict",
    "max_job_id",
    "max_movie_id",
    "max_user_id",
    "movie_categories",
    "movie_info",
    "test",
    "train",
    "user_info",
]

age_table = [1, 18, 25, 35, 45, 50, 56]
URL = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"


class MovieInfo:
    """A film: its number, its kinds, its title."""

    def __init__(self, index: str | int, categories: list[str], title: str) -> None:
        self.index = int(index)
        self.categories = categories
        self.title = title

    def value(self) -> list[Any]:
        """The film as numbers: its own, those of its kinds, those of its title's words."""
        return self.numbers(_facts())

    def numbers(self, facts: _Facts) -> list[Any]:
        """The film as numbers of one archive."""
        return [
            self.index,
            [facts.categories[kind] for kind in self.categories],
            [facts.words[word.lower()] for word in self.title.split()],
        ]

    def __repr__(self) -> str:
        return f"<MovieInfo id({self.index}), title({self.title}), categories({self.categories})>"


class UserInfo:
    """Somebody who rates films: sex, age and work."""

    def __init__(self, index: str | int, gender: str, age: str | int, job_id: str | int) -> None:
        self.index = int(index)
        self.is_male = gender == "M"
        self.age = age_table.index(int(age))
        self.job_id = int(job_id)

    def value(self) -> list[int]:
        """The person as numbers."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __repr__(self) -> str:
        gender = "M" if self.is_male else "F"
        return (
            f"<UserInfo id({self.index}), gender({gender}), age({age_table[self.age]}), job({self.job_id})>"
        )


@dataclass
class _Facts:
    """Films and people, and the numbers of words and kinds."""

    movies: dict[int, MovieInfo] = field(default_factory=dict)
    users: dict[int, UserInfo] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)


_read: dict[str, _Facts] = {}


def _facts() -> _Facts:
    return facts_of(download(URL, "movielens", MD5))


def facts_of(path: str) -> _Facts:
    """The films and people of an archive, read once."""
    if path not in _read:
        facts = _Facts()
        with zipfile.ZipFile(path) as package:
            for line in open_packed(package, "ml-1m/movies.dat"):
                number, title, kinds = line.decode("latin").strip().split("::")
                # without the year at the end
                match = re.fullmatch(r"(.*)\(\d+\)", title)
                shown = title if match is None else match[1]
                facts.movies[int(number)] = MovieInfo(number, kinds.split("|"), shown)
            for line in open_packed(package, "ml-1m/users.dat"):
                number, gender, age, job, _ = line.decode("latin").strip().split("::")
                facts.users[int(number)] = UserInfo(number, gender, age, job)
        # sorted, so that every process has the same numbers; in 1.8.5 they change from run to run
        titles = {word.lower() for movie in facts.movies.values() for word in movie.title.split()}
        kinds_of_all = {kind for movie in facts.movies.values() for kind in movie.categories}
        facts.words = {word: number for number, word in enumerate(sorted(titles))}
        facts.categories = {kind: number for number, kind in enumerate(sorted(kinds_of_all))}
        _read[path] = facts
    return _read[path]


def _ratings(rand_seed: int, test_ratio: float, is_test: bool) -> Iterator[Any]:
    return ratings(download(URL, "movielens", MD5), rand_seed, test_ratio, is_test)


def ratings(path: str, rand_seed: int, test_ratio: float, is_test: bool) -> Iterator[Any]:
    """Facts about a person, facts about a film, and the rating from -3 to 5."""
    facts = facts_of(path)
    # the numbers that `numpy.random.seed` would lead to, without touching those of the script
    random = np.random.RandomState(rand_seed)
    with zipfile.ZipFile(path) as package:
        for line in open_packed(package, "ml-1m/ratings.dat"):
            if (random.random_sample() < test_ratio) == is_test:
                user, movie, rating, _ = line.decode("latin").strip().split("::")
                known = facts.users[int(user)].value() + facts.movies[int(movie)].numbers(facts)
                yield [*known, [float(rating) * 2 - 5.0]]


def train(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """A reader of nine tenths of the ratings."""
    return lambda: _ratings(rand_seed, test_ratio, False)


def test(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """A reader of the other tenth."""
    return lambda: _ratings(rand_seed, test_ratio, True)


def get_movie_title_dict() -> dict[str, int]:
    """Word of a title -> number."""
    return _facts().words


def max_movie_id() -> int:
    """The largest number of a film."""
    return max(_facts().movies)


def max_user_id() -> int:
    """The largest number of a person."""
    return max(_facts().users)


def max_job_id() -> int:
    """The largest number of a kind of work."""
    return max(user.job_id for user in _facts().users.values())


def movie_categories() -> dict[str, int]:
    """Kind of film -> number."""
    return _facts().categories


def user_info() -> dict[int, UserInfo]:
    """Number -> person."""
    return _facts().users


def movie_info() -> dict[int, MovieInfo]:
    """Number -> film."""
    return _facts().movies


def fetch() -> None:
    """See that the file is there."""
    download(URL, "movielens", MD5)
