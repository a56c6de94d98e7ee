"""Places on machines with and without CuPy."""

from __future__ import annotations

import pathlib
import subprocess
import sys

SCRIPT = "import fluidlite as fluid\nprint(fluid.core.is_compiled_with_cuda())\n"


def test_a_folder_named_cupy_changes_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (alone := tmp_path / "beside").mkdir()
    (alone / "script.py").write_text(SCRIPT)
    (tmp_path / "cupy").mkdir()
    found = [
        subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=True)
        for folder in (tmp_path, alone)
    ]
    assert found[0].stdout == found[1].stdout
