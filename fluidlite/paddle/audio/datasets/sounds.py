"""Recordings in folders, with a label each, as waves or as their spectra."""

from __future__ import annotations

import csv
import os
import pathlib
import zipfile
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ArgumentError
from fluidlite.ir.program import program_guard
from fluidlite.paddle.audio import features
from fluidlite.paddle.audio.backends import read_samples
from fluidlite.paddle.dataset import common
from fluidlite.paddle.io.datasets import Dataset
from fluidlite.paddle.programs import Program
from fluidlite.paddle.static.executor import Executor
from fluidlite.paddle.static.inputs import data

__all__ = ["ESC50", "TESS", "Sounds"]

_FEATURES = {
    "melspectrogram": "MelSpectrogram",
    "mfcc": "MFCC",
    "logmelspectrogram": "LogMelSpectrogram",
    "spectrogram": "Spectrogram",
}
_SCALE = 1 << 15  # of 16 bits


class Sounds(Dataset):
    """Recordings of one channel in files and what they are called, a number each.

    A sample is (wave, label), with a wave of float32 in [-1, 1), or (features, label) for a `feat_type`
    "spectrogram", "melspectrogram", "logmelspectrogram" or "mfcc": `kwargs` are the arguments of the class of
    that name in `paddle.audio.features`.
    """

    def __init__(
        self, files: Iterable[pathlib.Path], labels: Iterable[int], feat_type: str = "raw", **kwargs: Any
    ) -> None:
        if feat_type != "raw" and feat_type not in _FEATURES:
            raise ArgumentError(f"Unknown feat_type: {feat_type}, it must be one in {['raw', *_FEATURES]}")
        self.files = list(files)
        self.labels = list(labels)
        self.feat_type = feat_type
        self.feat_config = kwargs
        self._programs: dict[tuple[int, int], tuple[Program, Any]] = {}

    def __getitem__(self, idx: int) -> tuple[Array, int]:
        frames, rate = read_samples(self.files[idx], 0, -1)
        wave = frames[:, 0].astype(np.float32) / _SCALE
        if self.feat_type == "raw":
            return wave, self.labels[idx]
        return self._features(wave, rate), self.labels[idx]

    def __len__(self) -> int:
        return len(self.files)

    def _features(self, wave: Array, rate: int) -> Array:
        """The features of a wave, by a program for waves of this length."""
        key = (len(wave), rate)
        if key not in self._programs:
            self._programs[key] = self._program(*key)
        program, out = self._programs[key]
        [found] = Executor().run(program, feed={"wave": wave[None]}, fetch_list=[out])
        result: Array = found[0]
        return result

    def _program(self, length: int, rate: int) -> tuple[Program, Any]:
        config = dict(self.feat_config)
        if self.feat_type != "spectrogram":  # the others gather frequencies in bands
            config["sr"] = rate
        main = Program()
        with program_guard(main, Program()):
            wave = data("wave", [1, length], "float32")
            return main, getattr(features, _FEATURES[self.feat_type])(**config)(wave)


def _folder(name: str, inside: str, archive: dict[str, str]) -> pathlib.Path:
    """The folder `name` of `paddle.dataset`'s folder, unpacked from the archive beside it where it lacks."""
    home = pathlib.Path(common.DATA_HOME)
    if not (home / name / inside).exists():
        packed = common.download(archive["url"], "", archive["md5"])
        with zipfile.ZipFile(packed) as file:
            file.extractall(home)
    return home / name


def _chosen(mode: str, fold: int, split: int) -> bool:
    """True for a recording of a fold that belongs to a mode: "train" leaves the fold `split` to others."""
    return (fold != split) if mode == "train" else (fold == split)


class ESC50(Sounds):
    """2,000 recordings of five seconds, of 50 kinds, in five folds (Piczak, 2015): "train" has all but those
    of the fold `split`, other modes have that one.
    """

    archive: ClassVar[dict[str, str]] = {
        "url": "https://paddleaudio.bj.bcebos.com/datasets/ESC-50-master.zip",
        "md5": "7771e4b9d86d0945acce719c7a59305a",
    }
    label_list: ClassVar[list[str]] = [
        "Dog",
        "Rooster",
        "Pig",
        "Cow",
        "Frog",
        "Cat",
        "Hen",
        "Insects (flying)",
        "Sheep",
        "Crow",
        "Rain",
        "Sea waves",
        "Crackling fire",
        "Crickets",
        "Chirping birds",
        "Water drops",
        "Wind",
        "Pouring water",
        "Toilet flush",
        "Thunderstorm",
        "Crying baby",
        "Sneezing",
        "Clapping",
        "Breathing",
        "Coughing",
        "Footsteps",
        "Laughing",
        "Brushing teeth",
        "Snoring",
        "Drinking, sipping",
        "Door knock",
        "Mouse click",
        "Keyboard typing",
        "Door, wood creaks",
        "Can opening",
        "Washing machine",
        "Vacuum cleaner",
        "Clock alarm",
        "Clock tick",
        "Glass breaking",
        "Helicopter",
        "Chainsaw",
        "Siren",
        "Car horn",
        "Engine",
        "Train",
        "Church bells",
        "Airplane",
        "Fireworks",
        "Hand saw",
    ]

    def __init__(
        self,
        mode: str = "train",
        split: int = 1,
        feat_type: str = "raw",
        archive: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        assert split in range(1, 6), f"The selected split should be between 1 and 5, but got {split}"
        folder = _folder("ESC-50-master", "meta", archive or self.archive)
        with open(folder / "meta" / "esc50.csv", encoding="utf8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if _chosen(mode, int(row["fold"]), split)]
        files = [folder / "audio" / row["filename"] for row in rows]
        super().__init__(files, [int(row["target"]) for row in rows], feat_type, **kwargs)


class TESS(Sounds):
    """2,800 recordings of 200 words, spoken by two women in seven emotions (Pichora-Fuller and Dupuis, 2020).

    The recordings are dealt to `n_folds` folds in the order of their paths: "train" has all but those of the
    fold `split`, other modes have that one.
    """

    archive: ClassVar[dict[str, str]] = {
        "url": "https://bj.bcebos.com/paddleaudio/datasets/TESS_Toronto_emotional_speech_set.zip",
        "md5": "1465311b24d1de704c4c63e4ccc470c7",
    }
    label_list: ClassVar[list[str]] = ["angry", "disgust", "fear", "happy", "neutral", "ps", "sad"]

    def __init__(
        self,
        mode: str = "train",
        n_folds: int = 5,
        split: int = 1,
        feat_type: str = "raw",
        archive: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        assert isinstance(n_folds, int) and n_folds >= 1, (
            f"the n_folds should be integer and n_folds >= 1, but got {n_folds}"
        )
        assert split in range(1, n_folds + 1), (
            f"The selected split should be integer and should be 1 <= split <= {n_folds}, but got {split}"
        )
        folder = _folder("TESS_Toronto_emotional_speech_set", "", archive or self.archive)
        # sorted: the order of a folder differs from one machine to the next
        found = sorted(folder.rglob("*.wav"), key=os.fspath)
        files = [file for place, file in enumerate(found) if _chosen(mode, place % n_folds + 1, split)]
        labels = [self.label_list.index(file.stem.split("_")[2]) for file in files]
        super().__init__(files, labels, feat_type, **kwargs)
