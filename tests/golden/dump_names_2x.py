"""Record the public names of PaddlePaddle 2.6.2 in `names.json.gz`, under `door`: module -> its `__all__`,
and those of a Variable of programs.

cd tests && python -m golden.dump_names_2x        (with the Python that has 2.6.2)
"""

from __future__ import annotations

import gzip
import json
import pathlib

from golden.dump_module_names_2x import modules

PATH = pathlib.Path(__file__).parent / "names.json.gz"
TENSOR = "paddle.Tensor"


def main() -> None:
    import paddle

    found = json.loads(gzip.decompress(PATH.read_bytes()))
    listed = {name: getattr(module, "__all__", ()) for name, module in modules().items()}
    found["door"] = {name: sorted(set(names)) for name, names in listed.items() if names}
    paddle.enable_static()
    variable = paddle.static.data("x", [2], "float32")
    found["door"][TENSOR] = [name for name in dir(variable) if not name.startswith("_")]
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    PATH.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
