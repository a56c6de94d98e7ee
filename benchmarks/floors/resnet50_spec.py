"""ResNet-50 at 224 x 224: training batch 8 (momentum 0.9 with L2 1e-4), inference batch 1."""
import numpy as np
from perfkit import Spec


def layout():
    """[(name, cin, cout, k, stride)] of every conv+bn, block by block; a block's last entry is its shortcut or None."""
    convs = [("c0", 3, 64, 7, 2)]
    blocks = []
    cin = 64
    for s, (count, c) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for i in range(count):
            st = 2 if s and i == 0 else 1
            nm = "s%db%d" % (s, i)
            main = [(nm + "a", cin, c, 1, 1), (nm + "b", c, c, 3, st), (nm + "c", c, 4 * c, 1, 1)]
            sc = (nm + "s", cin, 4 * c, 1, st) if cin != 4 * c else None
            blocks.append((*main, sc))
            convs += main + ([sc] if sc else [])
            cin = 4 * c
    return convs, blocks


def make(config):
    batch = {"train": 8, "infer": 1}[config]
    cfg = dict(batch=batch, lr=0.01, mu=0.9, wd=1e-4, layout=layout, pool=True, infer=config == "infer")
    rng = np.random.RandomState(13)
    p = {}
    for nm, ci, co, k, st in layout()[0]:
        p[nm + "_w"] = (rng.randn(co, ci, k, k) * np.sqrt(2.0 / (ci * k * k))).astype("float32")
        p[nm + "_g"] = np.ones(co, "float32") * (0.2 if nm.endswith("c") else 1)
        p[nm + "_b"] = np.zeros(co, "float32")
    p["fc_w"] = (rng.randn(2048, 1000) * 0.02).astype("float32")
    p["fc_b"] = np.zeros(1000, "float32")
    p = {k: v.astype("float32") for k, v in p.items()}
    batches = [dict(x=rng.rand(batch, 3, 224, 224).astype("float32"),
                    y=rng.randint(1000, size=(batch, 1)).astype("int64")) for _ in range(2)]
    return Spec(cfg, p, batches, rtol=1e-3)
