"""`pytest -p gpu_sim.plugin -m gpu`: the tests of devices on the stand-in, which has four."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys

# where `fake_nccl` lies: this is loaded before conftest.py, which adds the folders of all rooms
sys.path.append(str(pathlib.Path(__file__).parents[1] / "comm"))

from gpu_sim import cublas
from gpu_sim.stand_in import modules

__all__: list[str] = []

# results of cuDNN are held against those of kernels; measuring both would take long, and say nothing
os.environ.setdefault("FLAGS_cudnn_deterministic", "1")
sys.modules.update(modules(4))
ctypes.CDLL = cublas.loaded  # type: ignore[misc]
