"""`paddle.dataset` against the samples that PaddlePaddle 1.8.5 reads out of the same small files."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import importlib
import json
import pathlib
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import make_datasets
import numpy as np
import pytest

from fluidlite.errors import FormatError, MissingFileError
from fluidlite.paddle import compat, dataset
from fluidlite.paddle.utils import Ploter

PACKAGE = "fluidlite.paddle.dataset"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    made = str(tmp_path / "dataset")
    make_datasets.write(made)
    make_datasets.use(made, PACKAGE, monkeypatch.setattr)
    return made


def test_samples_are_those_of_paddle(folder: str) -> None:
    with gzip.open(pathlib.Path(__file__).with_name("datasets.json.gz"), "rt", encoding="utf8") as source:
        expected = json.load(source)
    found = json.loads(json.dumps(make_datasets.read(PACKAGE, folder)))
    assert sorted(found) == sorted(expected)
    assert not [name for name in expected if found[name] != expected[name]]


def test_what_paddle_cannot_read(folder: str) -> None:
    """1.8.5 looks for files called b'one' there, and starts threads that do not end."""
    for name in ("train", "test", "val"):
        ((picture, kinds),) = getattr(dataset.voc2012, name)()()
        assert picture.shape == (5, 4, 3) and kinds.shape == (5, 4) and kinds.max() < 21
    samples = list(dataset.flowers.train()())
    assert sorted(label for _, label in samples) == [1, 2] and samples[0][0].shape == (3 * 224 * 224,)


def test_files_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path))
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    reader = dataset.mnist.train()
    with pytest.raises(MissingFileError) as missing:
        next(reader())
    assert str(missing.value) == (
        f"file {path} not found: put "
        "https://dataset.bj.bcebos.com/mnist/train-images-idx3-ubyte.gz "
        "(MD5 f68b3c2dcbeaaa9fbdd348bbdeb94873) there, or run the script by `fluidlite run --download`"
    )
    path.parent.mkdir()
    path.write_bytes(b"half of it")
    with pytest.raises(FormatError, match="its MD5 is .*, not f68b3c2dcbeaaa9fbdd348bbdeb94873"):
        dataset.mnist.fetch()


CONTENT = b"a data set" * 100_000


class Web(http.server.BaseHTTPRequestHandler):
    """A server with one file, and one that it breaks off in the middle."""

    def do_GET(self) -> None:
        """Send a file, or 404."""
        self.send_response(200 if "set" in self.path else 404)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // (2 if "half" in self.path else 1)])

    def log_message(self, *unused: Any) -> None:
        """Say nothing."""


@pytest.fixture
def web() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_files_are_fetched_where_that_is_allowed(
    web: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """Whole and with the right sum, or not at all."""
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path))
    right = hashlib.md5(CONTENT).hexdigest()
    with pytest.raises(MissingFileError, match="fluidlite run --download"):
        dataset.common.download(f"{web}/set", "new", right)
    monkeypatch.setenv("FLUIDLITE_DOWNLOAD", "1")
    for address, md5, kind, text in (
        (f"{web}/set", "0" * 32, FormatError, "is not the file that Paddle reads"),
        (f"{web}/half-set", right, FormatError, "is not the file that Paddle reads"),
        (f"{web}/other", right, MissingFileError, "cannot be fetched: HTTP Error 404"),
        ("http://127.0.0.1:9/set", right, MissingFileError, "cannot be fetched"),
        ("file:///etc/passwd", right, MissingFileError, "is not an address of the web"),
    ):
        with pytest.raises(kind, match=text):
            dataset.common.download(address, "new", md5)
        assert not [*(tmp_path / "new").glob("*")]
    path = pathlib.Path(dataset.common.download(f"{web}/set", "new", right))
    assert path == tmp_path / "new" / "set" and path.read_bytes() == CONTENT
    # the second time it is there
    assert dataset.common.download("http://127.0.0.1:9/set", "new", right) == str(path)


@pytest.mark.parametrize("name", [*dataset.__all__])
def test_every_data_set_says_what_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path))
    fetch = getattr(importlib.import_module(f"{PACKAGE}.{name}"), "fetch", None)
    assert (fetch is None) == (name == "image")
    if fetch is not None:
        with pytest.raises(MissingFileError, match="not found: put https?:"):
            fetch()


def test_archive_that_python_cannot_read(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path))
    (tmp_path / "MQ2007").mkdir()
    path = tmp_path / "MQ2007" / dataset.mq2007.URL.split("/")[-1]
    path.write_bytes(b"Rar!")
    monkeypatch.setattr(dataset.mq2007, "MD5", dataset.common.md5file(str(path)))
    with pytest.raises(MissingFileError, match="train.txt not found: unpack .*MQ2007.rar in its folder"):
        next(dataset.mq2007.train())


def test_parts_of_a_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset.common.split(lambda: iter(range(10)), line_count=3, suffix="part-%02d.pickle")
    assert [pickle.loads(path.read_bytes()) for path in sorted(tmp_path.iterdir())] == [
        [0, 1, 2, 3],
        [4, 5, 6],
        [7, 8, 9],
    ]
    assert list(dataset.common.cluster_files_reader("part-*.pickle", 2, 1)()) == [4, 5, 6]
    assert capsys.readouterr().out == "append file: part-01.pickle\n"
    dataset.common.split(lambda: iter("abc"), 9, "text-%d", lambda lines, out: out.write("".join(lines)))
    assert (tmp_path / "text-0").read_text() == "abc"


@pytest.mark.parametrize(
    "value, digits, rounded", [(2.5, 0, 3.0), (-2.5, 0, -3.0), (0.125, 2, 0.13), (0.0, 0, 0.0)]
)
def test_rounding(value: float, digits: int, rounded: float) -> None:
    assert compat.round(value, digits) == rounded


def test_texts_and_bytes() -> None:
    items: Any = [b"a", "b", None, 1.5]
    assert compat.to_text(items) == ["a", "b", None, 1.5] and items[0] == b"a"
    assert compat.to_text(items, inplace=True) is items and items[0] == "a"
    assert compat.to_text({b"a": b"b"}) == {"a": "b"} and compat.to_bytes({"a"}) == {b"a"}
    assert compat.floor_division(7, 2) == 3 and compat.get_exception_message(ValueError("no")) == "no"


def test_curves(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("DISABLE_PLOT", "True")
    curves = Ploter("train", "test")
    curves.append("train", 0, np.float32([1.5]))
    curves.plot(str(tmp_path / "curve.png"))
    curves.reset()
    with pytest.raises(AssertionError):
        curves.append("other", 0, 1.0)
    assert not list(tmp_path.iterdir())
