"""`fluid.contrib.slim.core.config`: strategies and their parts, made as a YAML file says."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Mapping
from typing import Any

from fluidlite.base.errors import MissingExtraError, did_you_mean
from fluidlite.contrib.slim.distillation import (
    DistillationStrategy,
    FSPDistiller,
    L2Distiller,
    SoftLabelDistiller,
)
from fluidlite.contrib.slim.nas import LightNASStrategy
from fluidlite.contrib.slim.prune import (
    AutoPruneStrategy,
    Pruner,
    SensitivePruneStrategy,
    StructurePruner,
    UniformPruneStrategy,
)
from fluidlite.contrib.slim.quantization.quantization_strategy import QuantizationStrategy
from fluidlite.contrib.slim.searcher import SAController

__all__ = ["ConfigFactory"]

CLASSES = (
    *(AutoPruneStrategy, DistillationStrategy, FSPDistiller, L2Distiller, LightNASStrategy, Pruner),
    *(QuantizationStrategy, SAController, SensitivePruneStrategy, SoftLabelDistiller, StructurePruner),
    *(UniformPruneStrategy,),
)
_BY_NAME: dict[str, Any] = {one.__name__: one for one in CLASSES}
SECTIONS = ("pruners", "quantizers", "distillers", "strategies", "controllers")


class ConfigFactory:
    """The objects that a file describes.

    Sections `pruners`, `distillers`, `controllers` and `strategies` map names to a `class` and its
    arguments, which may be names of others; `include` lists further files; `compressor` has the settings of
    a `Compressor`.

    Parameters
    ----------
    config: path of the file. Needs the package `yaml` (PyYAML).
    """

    def __init__(self, config: str) -> None:
        self.instances: dict[str, Any] = {}
        self.compressor: dict[str, Any] = {}
        self.version: int | None = None
        self._described: dict[str, Mapping[str, Any]] = {}
        self._parse_config(config)
        for name in self._described:
            self._make(name)
        wanted = self.compressor.get("strategies", [])
        self.compressor["strategies"] = [self._named(name) for name in wanted]

    def instance(self, name: str) -> Any:
        """The object of that name; None where the file describes none."""
        return self.instances.get(name)

    def _named(self, name: str) -> Any:
        if name not in self._described:
            raise ValueError(f"the configuration describes no {name!r}{did_you_mean(name, self._described)}")
        return self._make(name)

    def _make(self, name: str) -> Any:
        if name not in self.instances:
            self.instances[name] = self._new_instance(name, self._described[name])
        return self.instances[name]

    def _new_instance(self, name: str, attrs: Mapping[str, Any]) -> Any:
        kind = str(attrs.get("class"))
        if kind not in _BY_NAME:
            raise ValueError(
                f"{name!r} has the class {kind!r}, which does not exist{did_you_mean(kind, _BY_NAME)}"
            )
        known = inspect.signature(_BY_NAME[kind]).parameters
        given = {key: self._value(value) for key, value in attrs.items() if key in known}
        return _BY_NAME[kind](**given)

    def _value(self, value: Any) -> Any:
        """An argument; names of described objects stand for these."""
        if isinstance(value, str) and value in self._described:
            return self._make(value)
        return [self._value(one) for one in value] if isinstance(value, list) else value

    def _parse_config(self, config: str) -> None:
        read = _read_yaml(config)
        self.version = int(read.get("version", 1)) if self.version is None else self.version
        for path in read.get("include", ()):
            self._parse_config(str(pathlib.Path(config).parent / str(path).strip()))
        for section in SECTIONS:
            self._described.update(read.get(section) or {})
        self.compressor.update(read.get("compressor") or {})


def _read_yaml(path: str) -> dict[str, Any]:
    try:
        import yaml  # optional: nothing else needs it
    except ImportError:
        raise MissingExtraError(
            f"{path} is YAML, and the package that reads it is not installed: pip install fluidlite[slim]"
        ) from None
    # the safe loader makes numbers, texts, lists and dicts, and no objects
    found: dict[str, Any] = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf8")) or {}
    return found
