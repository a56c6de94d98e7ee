"""The samples that the data sets of `paddle.vision` and `paddle.text` of PaddlePaddle 2.6.2 make of the small
files of `make_datasets`.

    python make_datasets_2x.py FILE.json.gz      (with the Python that has 2.6.2 and scipy, PYTHONHASHSEED=0)
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import struct
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import make_datasets
import numpy as np

Case = tuple[str, dict[str, Any]]


def pictures(at: Any) -> Iterator[Case]:
    """(class of `paddle.vision.datasets`, its arguments)."""
    for name in ("MNIST", "FashionMNIST"):
        for mode, part in (("train", "train"), ("test", "t10k")):
            files = {
                "image_path": at(f"digits/{part}-images-idx3-ubyte.gz"),
                "label_path": at(f"digits/{part}-labels-idx1-ubyte.gz"),
            }
            yield name, {**files, "mode": mode, "backend": "cv2"}
            yield name, {**files, "mode": mode, "backend": "pil"}
    for name, size in (("Cifar10", 10), ("Cifar100", 100)):
        for mode in ("train", "test"):
            for backend in ("cv2", "pil"):
                file = at(f"cifar/cifar-{size}-python.tar.gz")
                yield name, {"data_file": file, "mode": mode, "backend": backend}
    flowers = {"data_file": at("flowers/102flowers.tgz"), "label_file": at("flowers/imagelabels.mat")}
    flowers["setid_file"] = at("flowers/setid.mat")
    voc = at("voc2012/VOCtrainval_11-May-2012.tar")
    for mode in ("train", "valid", "test"):
        for backend in ("cv2", "pil"):
            yield "Flowers", {**flowers, "mode": mode, "backend": backend}
            yield "VOC2012", {"data_file": voc, "mode": mode, "backend": backend}
    yield "DatasetFolder", {"root": at("tree")}
    yield "DatasetFolder", {"root": at("tree"), "extensions": (".png",)}
    yield "ImageFolder", {"root": at("tree")}
    yield "ImageFolder", {"root": at("tree"), "extensions": (".png",)}


def texts(at: Any) -> Iterator[Case]:
    """(class of `paddle.text`, its arguments)."""
    names = {"word_dict_file": "wordDict", "verb_dict_file": "verbDict", "target_dict_file": "targetDict"}
    tags = {key: at(f"conll05st/conll05st%2F{name}.txt") for key, name in names.items()}
    tags |= {
        "data_file": at("conll05st/conll05st-tests.tar.gz"),
        "emb_file": at("conll05st/conll05st%2FwordDict.txt"),
    }
    yield "Conll05st", tags
    for mode in ("train", "test"):
        for cutoff in (0, 3):
            yield "Imdb", {"data_file": at("imdb/imdb%2FaclImdb_v1.tar.gz"), "mode": mode, "cutoff": cutoff}
        ngrams = {"data_file": at("sentences.tgz"), "mode": mode}
        yield "Imikolov", {**ngrams, "data_type": "NGRAM", "window_size": 3, "min_word_freq": 1}
        yield "Imikolov", {**ngrams, "data_type": "SEQ", "min_word_freq": 0}
        yield "Imikolov", {**ngrams, "data_type": "SEQ", "window_size": 6, "min_word_freq": 0}
        yield (
            "Movielens",
            {"data_file": at("movielens/movielens%2Fml-1m.zip"), "mode": mode, "test_ratio": 0.3},
        )
        yield "UCIHousing", {"data_file": at("uci_housing/housing.data"), "mode": mode}
    for mode in ("train", "test", "gen"):
        yield "WMT14", {"data_file": at("wmt14/wmt14.tgz"), "mode": mode, "dict_size": 10}
    for mode in ("train", "test", "val"):
        for lang in ("en", "de"):
            sizes = {"src_dict_size": 9, "trg_dict_size": 11, "lang": lang}
            yield "WMT16", {"data_file": at("wmt16/wmt16.tar.gz"), "mode": mode, **sizes}


def plain(value: Any) -> Any:
    """A sample as JSON; a picture as an array, with the name of its class."""
    if type(value).__module__.startswith("PIL"):
        return ["PIL", value.mode, make_datasets.plain(np.array(value))]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return ["object", value.tolist()]
    return make_datasets.plain(value)


def sample(made: Any, number: int) -> Any:
    """One sample. Words of films' titles have numbers by hashes in 2.6.2: their count is kept."""
    found = plain(made[number])
    if type(made).__name__ == "Movielens":
        found[7] = found[7][:2]
    return found


def samples(made: Any, root: str) -> Any:
    """The first samples, how many there are, and what a set says of itself."""
    facts: dict[str, Any] = {
        "length": len(made),
        "samples": [sample(made, n) for n in range(min(8, len(made)))],
    }
    if type(made).__name__ == "WMT16":
        facts["words"] = [list(made.get_dict(lang)) for lang in ("en", "de")]
    else:
        keys = ("word_idx", "classes", "class_to_idx")
        facts["words"] = [make_datasets.plain(getattr(made, key)) for key in keys if hasattr(made, key)]
    if hasattr(made, "samples"):
        listed = [each if isinstance(each, (list, tuple)) else (each,) for each in made.samples]
        facts["listed"] = [[str(path).replace(root, ""), *rest] for path, *rest in listed]
    return facts


def more(folder: str) -> None:
    """Files in forms that 2.6.2 alone wants: pictures in folders, digits, a third part of texts."""
    random = np.random.RandomState(3)
    for place, name in enumerate(("cat/a.png", "cat/b.png", "dog/c.png", "dog/deep/d.png", "dog/e.txt")):
        path = pathlib.Path(folder, "tree", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make_datasets.picture(random, 4 + place, 5) if name.endswith("png") else b"text")
    os.makedirs(os.path.join(folder, "digits"))
    for part, rows in (("train", 200), ("t10k", 100)):
        start = os.path.join(folder, "digits", part)
        with gzip.open(f"{start}-images-idx3-ubyte.gz", "wb") as out:
            pixels = random.randint(0, 256, (rows, 28, 28)).astype("uint8")
            out.write(struct.pack(">IIII", 2051, rows, 28, 28) + pixels.tobytes())
        with gzip.open(f"{start}-labels-idx1-ubyte.gz", "wb") as out:
            out.write(struct.pack(">II", 2049, rows) + random.randint(0, 10, rows).astype("uint8").tobytes())
    lines = ["\n".join(make_datasets.text(random, count) for count in (5, 2, 7)) + "\n" for _ in range(3)]
    names = [f"./simple-examples/data/ptb.{part}.txt" for part in ("train", "valid", "test")]
    files = zip(names, (each.encode() for each in lines))
    make_datasets.archive(os.path.join(folder, "sentences.tgz"), files)


def read(paddle: Any, folder: str) -> dict[str, Any]:
    """Everything, by the call that makes it."""
    found: dict[str, Any] = {}
    at = lambda name: os.path.join(folder, name)
    for package, cases in ((paddle.vision.datasets, pictures(at)), (paddle.text, texts(at))):
        for name, arguments in cases:
            shown = {key: str(value).replace(folder, "") for key, value in arguments.items()}
            label = f"{name}({', '.join(f'{key}={value}' for key, value in shown.items())})"
            np.random.seed(5)
            try:
                found[label] = samples(getattr(package, name)(**arguments), folder)
            except Exception as error:
                found[label] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # dictionaries of other archives may lie in the user's
        os.environ["HOME"] = folder
        os.makedirs(os.path.join(folder, ".cache/paddle/dataset/wmt16"))  # 2.6.2 writes there without asking
        import paddle

        made = os.path.join(folder, "dataset")
        os.makedirs(made)
        make_datasets.write(made)
        more(made)
        text = json.dumps(read(paddle, made), sort_keys=True)
    pathlib.Path(sys.argv[1]).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
