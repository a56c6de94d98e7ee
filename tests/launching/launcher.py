"""The command `fluidlite-launch` in a process of its own, for the tests."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

__all__ = ["launch"]


def launch(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, and wait for its end."""
    return subprocess.run(
        [sys.executable, "-m", "fluidlite.cli.launch", *arguments],
        cwd=folder,
        env={**os.environ, "FLAGS_rpc_deadline": "200000"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
