"""Export the models with PaddlePaddle 2.6.2, run the scripts with it, and keep both.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2: `python -m golden.deployed_2x.record`.
`models.tar.xz` and `more_models.tar.xz` are the models, `results.json` is what each script prints.
The script `pico` needs PyYAML beside PaddlePaddle.
"""

from __future__ import annotations

import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import types

from . import models, more_models

HERE = pathlib.Path(__file__).parent
SCRIPTS = {
    models: ("ocr", "detect", "segment", "texts"),
    more_models: ("faces", "keypoints", "pico", "matting", "translate", "rank"),
}


def packed(folder: pathlib.Path) -> bytes:
    """The files of a folder as an archive without times and owners."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as archive:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = path.stat().st_size
            with open(path, "rb") as file:
                archive.addfile(entry, file)
    return out.getvalue()


def results(builder: types.ModuleType, folder: pathlib.Path) -> dict[str, object]:
    """The text that each script of some models prints; the models are written into a folder and packed."""
    name = builder.__name__.rpartition(".")[2]
    builder.export(str(folder / name))
    (HERE / f"{name}.tar.xz").write_bytes(packed(folder / name))
    found = {}
    for script in SCRIPTS[builder]:
        command = [sys.executable, str(HERE / "scripts" / f"{script}.py"), name]
        ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
        found[script] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Write the files; with the name of a module, only what belongs to it."""
    found = json.loads((HERE / "results.json").read_text())
    for builder in SCRIPTS:
        if sys.argv[1:] and not builder.__name__.endswith("." + sys.argv[1]):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            found.update(results(builder, pathlib.Path(temporary)))
    (HERE / "results.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
