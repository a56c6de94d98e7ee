"""`paddle.hub`: models that a folder offers by functions of its `hubconf.py`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fluidlite.base.errors import MissingExtraError, MissingFileError, UnsupportedError, did_you_mean

__all__ = ["help", "list", "load"]

_CONFIGURATION = "hubconf.py"


def _module(repo_dir: str, source: str) -> ModuleType:
    """The module `hubconf` of a folder, whose imports find the folder's files."""
    if source not in ("github", "gitee", "local"):
        raise ValueError(f"Unknown source: {source!r}. Allowed values: 'github' | 'gitee' | 'local'.")
    if source != "local":
        raise UnsupportedError(
            f"paddle.hub: FluidLite does not download {repo_dir!r} from {source}; clone it, and give its "
            "folder with source='local'"
        )
    path = os.path.join(os.path.expanduser(repo_dir), _CONFIGURATION)
    if not os.path.isfile(path):
        raise MissingFileError(f"file {path} not found: paddle.hub reads what a folder offers from it")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.path.dirname(path))
    missing = [name for name in vars(module).get("dependencies", []) if not _is_installed(name)]
    if missing:
        raise MissingExtraError(f"Missing dependencies: {', '.join(missing)}, which {path} asks for")
    return module


def _is_installed(name: str) -> bool:
    """True for a module that can be imported; its package has to be imported to know."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _entry(module: ModuleType, model: str) -> Callable[..., Any]:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a str of function name")
    found = vars(module).get(model)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf{did_you_mean(model, _entries(module))}")
    made: Callable[..., Any] = found
    return made


def _entries(module: ModuleType) -> Any:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def list(repo_dir: str, source: str = "github", force_reload: bool = False) -> Any:
    """The names of what a folder offers. source: "local"; nothing is downloaded."""
    return _entries(_module(repo_dir, source))


def help(repo_dir: str, model: str, source: str = "github", force_reload: bool = False) -> str | None:
    """The docstring of one of them."""
    return _entry(_module(repo_dir, source), model).__doc__


def load(repo_dir: str, model: str, source: str = "github", force_reload: bool = False, **kwargs: Any) -> Any:
    """Call one of them with `kwargs`."""
    return _entry(_module(repo_dir, source), model)(**kwargs)
