"""Record what PaddlePaddle 1.8.5's data parallel executor computes on the CPU: python3.7
make_data_parallel.py (numpy >= 1.17).
"""

import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
SEPARATORS = (",", ":")
sys.path.insert(0, str(HERE))
import data_parallel_programs as programs  # noqa: E402
import paddle.fluid as fluid  # noqa: E402


def short(array):
    """Nested lists of numbers with 7 digits."""
    if array.dtype.kind == "i":
        return array.tolist()
    return json.loads(json.dumps(array.tolist()), parse_float=lambda text: float(f"{float(text):.7g}"))


def main():
    only = set(sys.argv[1:])
    path = HERE.parent / "recorded" / "data_parallel.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for item in programs.CASES:
        for devices in item.devices:
            if only and item.name not in only:
                continue
            os.environ["CPU_NUM"] = str(devices)
            try:
                found, held = programs.train(fluid, item, devices)
            except Exception as error:
                print(item.name, devices, str(error)[-600:])
                continue
            known[f"{item.name} {devices}"] = {
                "fetched": [[short(value) for value in step] for step in found],
                "held": {name: short(value) for name, value in held.items()},
            }
    lines = [
        f"{json.dumps(name)}: {json.dumps(known[name], sort_keys=True, separators=SEPARATORS)}"
        for name in sorted(known)
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
