"""Small files in the formats of `paddle.dataset`, and the samples that PaddlePaddle 1.8.5 reads out of them.

    python make_datasets.py FILE.json.gz      (with PaddlePaddle 1.8.5's Python, PYTHONHASHSEED=0)

The MD5 sums of the modules are set to those of the small files.
"""

# ruff: noqa: UP031  (names with numbers in them, as 1.8.5 writes them too)

import gzip
import hashlib
import importlib
import io
import itertools
import json
import os
import pickle
import struct
import sys
import tarfile
import tempfile
import zipfile

import numpy as np
import scipy.io
from PIL import Image

WORDS = [
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "that",
    "it",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "at",
    "be",
    "this",
    "from",
    "I",
    "have",
    "or",
    "by",
    "one",
]


def text(random, count, words=WORDS):
    return " ".join(random.choice(words, count))


def idx(random, rows, folder, images, labels):
    pixels = random.randint(0, 256, (rows, 4, 3)).astype("uint8")
    with gzip.open(os.path.join(folder, images), "wb") as out:
        out.write(struct.pack(">IIII", 2051, rows, 4, 3) + pixels.tobytes())
    with gzip.open(os.path.join(folder, labels), "wb") as out:
        out.write(struct.pack(">II", 2049, rows) + random.randint(0, 10, rows).astype("uint8").tobytes())


def archive(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as out:
        for name, data in files:
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            out.addfile(facts, io.BytesIO(data))


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as out:
        for name, data in files:
            out.writestr(name, data)


def packed(data):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as stream:
        stream.write(data)
    return out.getvalue()


def picture(random, height, width, levels=256, mode="RGB"):
    """A PNG: it has the same pixels for every reader."""
    out = io.BytesIO()
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    Image.fromarray(random.randint(0, levels, shape).astype("uint8"), mode).save(out, "PNG")
    return out.getvalue()


def cifar(random, labels, rows):
    data = random.randint(0, 256, (rows, 3072)).astype("uint8")
    made = {b"data": data, labels: [int(each) for each in random.randint(0, 10, rows)]}
    return pickle.dumps(made, protocol=2)


def write_pictures(random, folder):
    at = folder.__add__
    batches = [("b/data_batch_%d" % number, cifar(random, b"labels", 3)) for number in (1, 2)]
    archive(at("/cifar/cifar-10-python.tar.gz"), batches + [("b/test_batch", cifar(random, b"labels", 2))])
    parts = [("c/" + name, cifar(random, b"fine_labels", 2)) for name in ("train", "test")]
    archive(at("/cifar/cifar-100-python.tar.gz"), parts)
    for part, rows in (("train", 200), ("t10k", 100)):
        names = ["%s-images-idx3-ubyte.gz", "%s-labels-idx1-ubyte.gz"]
        idx(random, rows, at("/mnist"), *[name % part for name in names])
    flowers = [
        ("jpg/image_%05d.jpg" % number, picture(random, 30 + 7 * number, 50)) for number in range(1, 5)
    ]
    archive(at("/flowers/102flowers.tgz"), flowers)
    scipy.io.savemat(at("/flowers/imagelabels.mat"), {"labels": np.array([[3, 1, 2, 1]])})
    sets = {"tstid": np.array([[1, 3]]), "trnid": np.array([[2]]), "valid": np.array([[4]])}
    scipy.io.savemat(at("/flowers/setid.mat"), sets)
    with open(at("/picture.png"), "wb") as out:
        out.write(picture(random, 61, 45))
    voc = "VOCdevkit/VOC2012/"
    files = [(voc + f"ImageSets/Segmentation/{name}.txt", b"one\n") for name in ("trainval", "train", "val")]
    files += [(voc + "JPEGImages/one.jpg", picture(random, 5, 4))]
    files += [(voc + "SegmentationClass/one.png", picture(random, 5, 4, 21, "L"))]
    archive(at("/voc2012/VOCtrainval_11-May-2012.tar"), files, "w")


def write_texts(random, folder):
    at = folder.__add__
    reviews = [
        ("aclImdb/%s/%s/%d.txt" % (part, kind, number), (f"It's {text(random, 9)}.\n").encode())
        for part in ("train", "test")
        for kind in ("pos", "neg")
        for number in range(3)
    ]
    archive(at("/imdb/imdb%2FaclImdb_v1.tar.gz"), reviews)
    lines = ["\n".join(text(random, count) for count in (5, 2, 7)) + "\n" for _ in range(2)]
    names = [f"./simple-examples/data/ptb.{part}.txt" for part in ("train", "valid")]
    archive(at("/imikolov/imikolov%2Fsimple-examples.tgz"), zip(names, (each.encode() for each in lines)))
    pairs = "".join(f"{text(random, 4)}\t{text(random, 90 if n == 3 else 5)}\n" for n in range(5)) + "x\n"
    vocabulary = "".join(word + "\n" for word in ["<s>", "<e>", "<unk>"] + WORDS[:15]).encode()
    files = [(f"w/{name}", vocabulary) for name in ("src.dict", "trg.dict")]
    files += [(f"w/{name}", pairs.encode()) for name in ("train/train", "test/test", "gen/gen")]
    archive(at("/wmt14/wmt14.tgz"), files)
    archive(
        at("/wmt16/wmt16.tar.gz"), [("wmt16/" + name, pairs.encode()) for name in ("train", "test", "val")]
    )
    reviews = [
        (
            "movie_reviews/%s/cv%d.txt" % (kind, number),
            text(random, 30, [word.lower() for word in WORDS]) + " .\n",
        )
        for kind in ("neg", "pos")
        for number in range(2)
    ]
    zipped(at("/corpora/movie_reviews.zip"), reviews)


def write_tables(random, folder):
    at = folder.__add__
    np.savetxt(at("/uci_housing/housing.data"), random.rand(11, 14), "%.4f")
    movies = "1::Toy Story (1995)::Animation\n2::One (Two) Toy (1996)::Animation\n"
    users = "1::F::1::10::48067\n2::M::56::16::70072\n"
    ratings = "".join("%d::%d::%d::9\n" % tuple(random.randint(1, 3, 3)) for _ in range(40))
    files = [("ml-1m/movies.dat", movies), ("ml-1m/users.dat", users), ("ml-1m/ratings.dat", ratings)]
    zipped(at("/movielens/movielens%2Fml-1m.zip"), files)
    # one tag and one kind of film: the order of several is the hash's
    words = b"The\ncat\nsat\ndown\n\nThe\ncat\nate\n\n"
    props = b"- (A* *\n- *) (A*)\nsit (V*) *\nbe * (V*)\n\n- (A*)\n- *\neat (V*)\n\n"
    props = props.replace(b"(A* *", b"(V* *").replace(b"- (A*)\n", b"- *\n")
    inside = "conll05st-release/test.wsj/%s/test.wsj.%s.gz"
    files = [(inside % (name, name), packed(data)) for name, data in (("words", words), ("props", props))]
    archive(at("/conll05st/conll05st-tests.tar.gz"), files)
    for name, lines in (
        ("wordDict", "unk\ncat\nsat\n"),
        ("verbDict", "sit\nbe\n"),
        ("targetDict", "B-V\nI-V\nO\n"),
    ):
        with open(at(f"/conll05st/conll05st%2F{name}.txt"), "w") as out:
            out.write(lines)
    os.makedirs(at("/MQ2007/MQ2007/MQ2007/Fold1"))
    for part in ("train", "test"):
        with open(at(f"/MQ2007/MQ2007/MQ2007/Fold1/{part}.txt"), "w") as out:
            for row in range(7):
                features = " ".join("%d:%.4f" % (n, random.rand()) for n in range(1, 47))
                out.write("%d qid:%d %s #docid = D%d\n" % (random.randint(0, 3), row // 3, features, row))


FOLDERS = (
    "mnist cifar uci_housing imdb imikolov movielens conll05st wmt14 wmt16 flowers voc2012 corpora MQ2007"
)


def write(folder):
    """All files, in `folder`."""
    for name in FOLDERS.split():
        os.makedirs(os.path.join(folder, name))
    random = np.random.RandomState(0)
    write_pictures(random, folder)
    write_texts(random, folder)
    write_tables(random, folder)


# module -> the constants that are MD5 sums, and the files that they belong to
SUMS = {
    "mnist": {
        f"{part}_{kind}_MD5": "mnist/%s-%ss-idx%d-ubyte.gz" % (name, kind.lower(), rank)
        for part, name in (("TRAIN", "train"), ("TEST", "t10k"))
        for kind, rank in (("IMAGE", 3), ("LABEL", 1))
    },
    "cifar": {"CIFAR%d_MD5" % n: "cifar/cifar-%d-python.tar.gz" % n for n in (10, 100)},
    "uci_housing": {"MD5": "uci_housing/housing.data"},
    "imdb": {"MD5": "imdb/imdb%2FaclImdb_v1.tar.gz"},
    "imikolov": {"MD5": "imikolov/imikolov%2Fsimple-examples.tgz"},
    "movielens": {"MD5": "movielens/movielens%2Fml-1m.zip"},
    "conll05": {
        "DATA_MD5": "conll05st/conll05st-tests.tar.gz",
        "WORDDICT_MD5": "conll05st/conll05st%2FwordDict.txt",
        "VERBDICT_MD5": "conll05st/conll05st%2FverbDict.txt",
        "TRGDICT_MD5": "conll05st/conll05st%2FtargetDict.txt",
    },
    "wmt14": {"MD5_TRAIN": "wmt14/wmt14.tgz"},
    "wmt16": {"DATA_MD5": "wmt16/wmt16.tar.gz"},
    "flowers": {
        "DATA_MD5": "flowers/102flowers.tgz",
        "LABEL_MD5": "flowers/imagelabels.mat",
        "SETID_MD5": "flowers/setid.mat",
    },
    "voc2012": {"VOC_MD5": "voc2012/VOCtrainval_11-May-2012.tar"},
    "sentiment": {"MD5": "corpora/movie_reviews.zip"},
}


def use(folder, package, put):
    """Have the modules of a package take the files in `folder`; `put(module, name, value)` sets."""
    put(importlib.import_module(package + ".common"), "DATA_HOME", folder)
    for name, sums in SUMS.items():
        for constant, file in sums.items():
            with open(os.path.join(folder, file), "rb") as source:
                put(
                    importlib.import_module(package + "." + name),
                    constant,
                    hashlib.md5(source.read()).hexdigest(),
                )


def plain(value):
    """A sample as JSON: arrays by dtype, shape and digest; bytes are marked."""
    if isinstance(value, np.ndarray):
        digest = hashlib.md5(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [str(value.dtype), list(value.shape), digest]
    if isinstance(value, dict):
        return sorted(([plain(key), plain(item)] for key, item in value.items()), key=str)
    if isinstance(value, (list, tuple)):
        return [type(value).__name__] + [plain(item) for item in value]
    if isinstance(value, bytes):
        return "bytes " + value.decode()
    return value.item() if isinstance(value, np.generic) else value


def taken(samples, most=12):
    return [plain(sample) for sample in itertools.islice(samples, most)]


def read_pictures(m, folder):
    """Name -> a function that gives samples."""
    image = m("image")
    shown = image.load_image(folder + "/picture.png")
    yield "mnist.train", lambda: taken(m("mnist").train()(), 250)
    yield "mnist.test", lambda: taken(m("mnist").test()())
    for name in ("train10", "test10", "train100", "test100"):
        yield "cifar." + name, lambda name=name: taken(getattr(m("cifar"), name)()())
    yield "cifar.cycle", lambda: taken(m("cifar").test10(cycle=True)(), 5)
    yield "image.load", lambda: plain(shown)
    for size in (20, 45, 70, 128):
        yield "image.resize_%d" % size, lambda size=size: plain(image.resize_short(shown, size))
    yield "image.gray", lambda: plain(image.resize_short(np.ascontiguousarray(shown[:, :, 0]), 50))
    for trains in (True, False):
        yield f"image.transform_{trains}", lambda trains=trains: transformed(image, shown, trains)
    for name in ("test", "valid"):
        yield "flowers." + name, lambda name=name: taken(getattr(m("flowers"), name)(use_xmap=False)())


def transformed(image, shown, trains):
    np.random.seed(4)
    return plain(image.simple_transform(shown, 64, 40, trains, mean=[1.0, 2.0, 3.0]))


def read_texts(m, folder):
    """Name -> a function that gives samples."""
    words = m("imdb").build_dict(__import__("re").compile(r"aclImdb/.*\.txt$"), 1)
    grams = m("imikolov").build_dict(1)
    yield "imdb.dict", lambda: plain(words)
    for name in ("train", "test"):
        yield "imdb." + name, lambda name=name: taken(getattr(m("imdb"), name)(words)())
        yield "imikolov." + name, lambda name=name: taken(getattr(m("imikolov"), name)(grams, 3)())
        yield "imikolov.seq_" + name, lambda name=name: taken(getattr(m("imikolov"), name)(grams, 6, 2)())
        yield "wmt14." + name, lambda name=name: taken(getattr(m("wmt14"), name)(14)())
        yield "wmt16." + name, lambda name=name: taken(getattr(m("wmt16"), name)(12, 14, "de")())
        yield "sentiment." + name, lambda name=name: taken(getattr(m("sentiment"), name)())
    yield "imikolov.dict", lambda: plain(grams)
    yield "wmt14.dict", lambda: plain(m("wmt14").get_dict(14))
    yield "wmt16.dict", lambda: plain(m("wmt16").get_dict("de", 12, reverse=True))
    yield "sentiment.dict", lambda: plain(m("sentiment").get_word_dict())


def read_tables(m, folder):
    """Name -> a function that gives samples."""
    yield "uci_housing.train", lambda: taken(m("uci_housing").train()())
    yield "uci_housing.test", lambda: taken(m("uci_housing").test()())
    yield "uci_housing.predict", lambda: plain(m("uci_housing").predict_reader())
    yield "conll05.test", lambda: taken(m("conll05").test()())
    yield "conll05.dict", lambda: plain(m("conll05").get_dict())
    films = m("movielens")
    # without the words of titles, whose numbers are the hash's in 1.8.5
    yield "movielens.train", lambda: [row[:-2] + row[-1:] for row in taken(films.train()(), 50)]
    yield "movielens.test", lambda: [row[:-2] + row[-1:] for row in taken(films.test()(), 50)]
    facts = (films.max_movie_id, films.max_user_id, films.max_job_id, films.movie_categories)
    yield "movielens.facts", lambda: [plain(fact()) for fact in facts]
    yield "movielens.titles", lambda: sorted(films.get_movie_title_dict())
    yield "movielens.shown", lambda: [repr(item) for item in films.movie_info().values()]
    for form in ("plain_txt", "pointwise", "pairwise", "listwise"):
        yield "mq2007." + form, lambda form=form: taken(m("mq2007").train(format=form))


def read(package, folder):
    """All samples by name."""

    def module(name):
        return importlib.import_module(package + "." + name)

    readers = itertools.chain(*(part(module, folder) for part in (read_pictures, read_texts, read_tables)))
    return {name: reader() for name, reader in readers}


def main():
    folder = tempfile.mkdtemp()
    write(folder)
    use(folder, "paddle.dataset", setattr)
    mq2007 = importlib.import_module("paddle.dataset.mq2007")
    # the archive is a RAR file, which nothing here can make: begin where it is unpacked
    mq2007.__initialize_meta_info__ = lambda: os.path.join(folder, "MQ2007")
    with gzip.open(os.path.abspath(sys.argv[1]), "wt") as out:
        os.chdir(folder)
        json.dump(read("paddle.dataset", folder), out, sort_keys=True)


if __name__ == "__main__":
    main()
