"""`pytest -p gpu_sim.plugin -m gpu`: the tests of devices on the stand-in, which has four."""

from __future__ import annotations

import sys

from gpu_sim.stand_in import modules

__all__: list[str] = []

sys.modules.update(modules(4))
