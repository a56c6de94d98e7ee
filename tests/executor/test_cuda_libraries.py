"""The places of CUDA's libraries, on machines that are folders."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
from typing import Any

import pytest

from fluidlite.executor.cuda import libraries


def library(path: pathlib.Path) -> pathlib.Path:
    """A file in the place of a library."""
    path.parent.mkdir(parents=True)
    path.touch()
    return path


@pytest.fixture()
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A machine with an environment whose folder of NVIDIA's wheels is `nvidia`, and a toolkit."""
    spec = importlib.util.spec_from_loader("nvidia", None, is_package=True)
    assert spec is not None and spec.submodule_search_locations is not None
    spec.submodule_search_locations.append(str(tmp_path / "nvidia"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setattr(libraries, "_TOOLKIT", str(tmp_path / "toolkit"))
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_wheels_come_before_toolkits(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = library(machine / "toolkit/lib64/libcublas.so.12")
    wheel = library(machine / "nvidia/cublas/lib/libcublas.so.12")
    named = library(machine / "named/lib64/libcublas.so.12")
    monkeypatch.setenv("CUDA_HOME", str(machine / "named"))
    assert list(libraries.places("libcublas.so.12", "cublas")) == [wheel, named, last]


def test_the_one_folder_of_cuda_13(machine: pathlib.Path) -> None:
    wheel = library(machine / "nvidia/cu13/lib/libcublas.so.13")
    library(machine / "toolkit/lib64/libcublas.so.12")
    assert list(libraries.places("libcublas.so.13", "cublas")) == [wheel]


def test_what_does_not_load_is_passed_over(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(machine / "nvidia/cublas/lib/libcublas.so.12")
    good = library(machine / "toolkit/lib64/libcublas.so.12")
    tried = []

    def opened(place: str) -> Any:
        tried.append(place)
        if place != str(good):
            raise OSError(place)
        return place

    monkeypatch.setattr(ctypes, "CDLL", opened)
    assert libraries.load("libcublas.so.12", "cublas") == str(good)
    assert tried[0] == "libcublas.so.12" and len(tried) == 3
    good.unlink()
    assert libraries.load("libcublas.so.12", "cublas") is None


def test_no_wheels_at_all(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert not list(libraries.places("libcublas.so.12", "cublas"))
