"""Export the models with PaddlePaddle 2.6.2, run the scripts with it, and keep both.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2: `python -m golden.deployed_2x.record`.
`models.tar.xz` are the models, `results.json` is what each script prints.
"""

from __future__ import annotations

import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

from .models import export

HERE = pathlib.Path(__file__).parent


def packed(folder: pathlib.Path) -> bytes:
    """The files of a folder as an archive without times and owners."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as archive:
        for path in sorted(folder.rglob("*.pd*")):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = path.stat().st_size
            with open(path, "rb") as file:
                archive.addfile(entry, file)
    return out.getvalue()


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        export(str(folder / "models"))
        (HERE / "models.tar.xz").write_bytes(packed(folder / "models"))
        found = {}
        for name in ("ocr", "detect", "segment", "texts"):
            script = HERE / "scripts" / f"{name}.py"
            ran = subprocess.run(
                [sys.executable, str(script), "models"], cwd=folder, stdout=subprocess.PIPE, check=True
            )
            found[name] = json.loads(ran.stdout.splitlines()[-1])
        (HERE / "results.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
