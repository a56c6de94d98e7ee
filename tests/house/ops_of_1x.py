"""Write `fluidlite/saving/ops_of_1x.txt`, the op types of PaddlePaddle 1.8.5, from what was recorded there.

python tests/house/ops_of_1x.py
"""

from __future__ import annotations

import gzip
import json
import pathlib
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "fluidlite" / "saving" / "ops_of_1x.txt"


def text() -> str:
    """The text of the file."""
    with gzip.open(ROOT / "tests" / "golden" / "op_protos.json.gz", "rt", encoding="utf8") as source:
        return textwrap.fill(" ".join(sorted(json.load(source))), 110, break_on_hyphens=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf8")
