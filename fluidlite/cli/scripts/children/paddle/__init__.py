"""`paddle` in the processes that a script under `fluidlite-run` starts: FluidLite takes this module's place.

The folder above is in their `PYTHONPATH`, whose modules come before installed ones.
"""

from __future__ import annotations

import importlib
import sys

from fluidlite.cli.scripts.names import install_as_paddle

if __name__ == "paddle":  # and not what walks FluidLite's own packages
    # the module being imported is this one, and Python takes what stands in `sys.modules` in the end
    del sys.modules[__name__]
    install_as_paddle(shadow=True)
    importlib.import_module(__name__)
