"""Data sets of `paddle.vision` and `paddle.text` beside those of PaddlePaddle 2.6.2."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import tarfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import make_datasets
import make_datasets_2x
import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import FormatError, MissingFileError
from fluidlite.paddle.dataset import common

RECORDED = json.loads(gzip.decompress(pathlib.Path(__file__).with_name("datasets_2x.json.gz").read_bytes()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = str(tmp_path_factory.mktemp("files") / "dataset")
    os.makedirs(made)
    make_datasets.write(made)
    make_datasets_2x.more(made)
    return made


def test_samples_are_those_of_paddle(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "DATA_HOME", folder)
    found = json.loads(json.dumps(make_datasets_2x.read(paddle, folder), sort_keys=True))
    assert sorted(found) == sorted(RECORDED)
    translations = {name for name in RECORDED if name.startswith("WMT16")}
    assert not [name for name in RECORDED if found[name] != RECORDED[name] and name not in translations]
    for name in translations:
        wanted, there = (facts[name] for facts in (RECORDED, found))
        assert [one[1] for one in there["samples"]] == [one[1] for one in wanted["samples"]]  # the sources


def test_a_dictionary_is_that_of_its_language(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.6.2 counts the words of the source for both dictionaries."""
    monkeypatch.setattr(common, "DATA_HOME", folder)
    (name,) = (
        name for name in RECORDED if name.startswith("WMT16") and "train" in name and "lang=en" in name
    )
    english, german = RECORDED[name]["words"]
    assert german[: len(english)] == english
    file = os.path.join(folder, "wmt16", "wmt16.tar.gz")
    found = paddle.text.WMT16(file, "train", 9, 11)
    assert list(found.get_dict("en")) == english
    with tarfile.open(file) as archive:
        lines = archive.extractfile("wmt16/train").read().decode().splitlines()  # type: ignore[union-attr]
    words = Counter(word for line in lines if "\t" in line for word in line.split("\t")[1].split())
    assert list(found.get_dict("de"))[3:] == [word for word, _ in words.most_common(8)]


def test_transforms_and_loaders(folder: str) -> None:
    start = os.path.join(folder, "digits", "train")
    files = (f"{start}-images-idx3-ubyte.gz", f"{start}-labels-idx1-ubyte.gz")
    digits = paddle.vision.datasets.MNIST(
        *files, transform=lambda image: np.array(image)[None], backend="pil"
    )
    (image, label), *_ = paddle.io.DataLoader(digits, batch_size=3, return_list=True)()
    assert np.array(image).shape == (3, 1, 28, 28) and np.array(label).shape == (3, 1)
    tree = paddle.vision.datasets.DatasetFolder(
        os.path.join(folder, "tree"), is_valid_file=lambda path: "a." in path
    )
    assert [number for _, number in tree.samples] == [0] and tree.classes == ["cat", "dog"]


def test_files_that_are_cut(folder: str, tmp_path: pathlib.Path) -> None:
    start = os.path.join(folder, "digits", "train")
    data = gzip.decompress(pathlib.Path(f"{start}-images-idx3-ubyte.gz").read_bytes())
    (tmp_path / "images.gz").write_bytes(gzip.compress(data[:-5]))
    with pytest.raises(FormatError, match="156795 elements, but its head says"):
        paddle.vision.datasets.MNIST(str(tmp_path / "images.gz"), f"{start}-labels-idx1-ubyte.gz")
    labels = os.path.join(folder, "digits", "t10k-labels-idx1-ubyte.gz")
    with pytest.raises(FormatError, match="has 200 images, but .* has 100 labels"):
        paddle.vision.datasets.MNIST(f"{start}-images-idx3-ubyte.gz", labels)


vision, text = paddle.vision.datasets, paddle.text


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: vision.MNIST(mode="x"), AssertionError, "mode should be 'train' or 'test', but got x"),
        (lambda: vision.MNIST(backend="x"), ValueError, "Expected backend are one of"),
        (lambda: vision.MNIST(download=False), AssertionError, "image_path is not set"),
        (lambda: vision.VOC2012(mode="x"), AssertionError, "'train', 'valid' or 'test'"),
        (lambda: vision.ImageFolder(os.path.dirname(__file__)), RuntimeError, "Found 0 files"),
        (lambda: text.Imikolov(data_type="x"), AssertionError, "data type should be"),
        (lambda: text.WMT14(data_file="/x"), AssertionError, "dict_size should be set"),
        (lambda: text.WMT16(mode="gen"), AssertionError, "'train', 'test' or 'val'"),
        (lambda: text.Conll05st(data_file="/x", download=False), AssertionError, "word_dict_file is not set"),
        (lambda: paddle.vision.set_image_backend("x"), ValueError, "Expected backend are one of"),
        (lambda: paddle.vision.image_load("/nope", "x"), ValueError, "Expected backend are one of"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


def test_files_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    for make in (
        vision.MNIST,
        vision.FashionMNIST,
        vision.Cifar100,
        vision.Flowers,
        vision.VOC2012,
        text.Imdb,
    ):
        with pytest.raises(MissingFileError, match="or run the script by `fluidlite run --download`"):
            make()


def test_backends(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "one.png"
    path.write_bytes(make_datasets.picture(np.random.RandomState(0), 3, 4))
    assert paddle.vision.get_image_backend() == "pil"
    assert paddle.vision.image_load(str(path)).size == (4, 3)
