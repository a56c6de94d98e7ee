"""Data sets of sounds, from folders and archives that stand in for the published ones."""

from __future__ import annotations

import hashlib
import pathlib
import wave
import zipfile

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import FormatError, MissingFileError
from fluidlite.paddle.audio.datasets import ESC50, TESS
from fluidlite.paddle.dataset import common

SPOKEN = [("OAF", "back", "angry"), ("OAF", "bar", "sad"), ("YAF", "back", "ps"), ("YAF", "bar", "happy")]


def _record(path: pathlib.Path, number: int, rate: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = (3000 * np.sin(np.arange(400) * (number + 1) / 9)).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())


@pytest.fixture(autouse=True)
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    paddle.enable_static()
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def esc50(home: pathlib.Path) -> pathlib.Path:
    folder = home / "ESC-50-master"
    rows = ["filename,fold,target,category,esc10,src_file,take"]
    for number in range(6):
        fold = number % 5 + 1
        name = f"{fold}-10{number}-A-{3 * number}.wav"
        _record(folder / "audio" / name, number, 44100)
        rows.append(f"{name},{fold},{3 * number},x,False,10{number},A")
    (folder / "meta").mkdir()
    (folder / "meta" / "esc50.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.mark.usefixtures("esc50")
def test_folds_of_esc50() -> None:
    """The labels and sums of waves and spectra that 2.6.2 gives for these files."""
    assert [label for _, label in ESC50()] == [3, 6, 9, 12]
    assert [label for _, label in ESC50(mode="dev")] == [0, 15]
    assert [label for _, label in ESC50("train", 5)] == [0, 3, 6, 9, 15]
    sound, label = ESC50()[0]
    assert (sound.shape, sound.dtype, label) == ((400,), "float32", 3)
    np.testing.assert_allclose(sound.sum(), 0.1266, atol=1e-4)
    spectra = ESC50(feat_type="mfcc", n_mfcc=13, n_fft=64, hop_length=32, n_mels=20)
    sums = [found.sum() for found, _ in spectra]
    np.testing.assert_allclose(sums, [-5924.718, -5724.127, -5631.838, -5573.806], rtol=1e-4)
    assert spectra[0][0].shape == (13, 13) and len(spectra) == 4
    assert len(ESC50.label_list) == 50 and ESC50.label_list[29] == "Drinking, sipping"


def test_folds_of_tess(home: pathlib.Path) -> None:
    for number, (speaker, word, emotion) in enumerate(SPOKEN):
        folder = home / "TESS_Toronto_emotional_speech_set" / f"{speaker}_{emotion}"
        _record(folder / f"{speaker}_{word}_{emotion}.wav", number, 24414)
    assert [label for _, label in TESS()] == [6, 3, 5]
    assert [label for _, label in TESS("dev", n_folds=3, split=1)] == [0, 5]
    spectrum, label = TESS("dev", feat_type="spectrogram", n_fft=64)[0]
    assert (spectrum.shape, label) == ((33, 1), 0)
    np.testing.assert_allclose(spectrum.sum(), 4.3088, rtol=1e-4)
    with pytest.raises(AssertionError, match="should be 1 <= split <= 5, but got 6"):
        TESS(split=6)
    with pytest.raises(RuntimeError, match="Unknown feat_type: q"):
        TESS(feat_type="q")


def test_archives(home: pathlib.Path, esc50: pathlib.Path) -> None:
    packed = home / "given.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for path in [*esc50.rglob("*.wav"), esc50 / "meta" / "esc50.csv"]:
            file.write(path, path.relative_to(home))
            path.unlink()
    (esc50 / "meta").rmdir()
    given = {"url": "https://example.com/given.zip", "md5": hashlib.md5(packed.read_bytes()).hexdigest()}
    assert [label for _, label in ESC50(archive=given)] == [3, 6, 9, 12]
    with pytest.raises(MissingFileError, match="TESS_Toronto_emotional_speech_set.zip"):
        TESS()
    with pytest.raises(FormatError, match="its MD5 is"):
        TESS(archive=given | {"md5": "0" * 32})
