"""CIFAR ResNet-20 (n=3), batch norm, momentum 0.9 with L2 1e-4, 1x1 projection shortcuts."""
import numpy as np
from perfkit import Spec


def layout(n=3):
    """[(name, cin, cout, k, stride)] of every conv+bn, block by block."""
    convs = [("c0", 3, 16, 3, 1)]
    blocks = []
    cin = 16
    for s, c in enumerate((16, 32, 64)):
        for i in range(n):
            st = 2 if s and i == 0 else 1
            nm = "s%db%d" % (s, i)
            a, b = (nm + "a", cin, c, 3, st), (nm + "b", c, c, 3, 1)
            sc = (nm + "s", cin, c, 1, st) if cin != c else None
            blocks.append((a, b, sc))
            convs += [a, b] + ([sc] if sc else [])
            cin = c
    return convs, blocks


def make(config):
    cfg = dict(batch=32, lr=0.01, mu=0.9, wd=1e-4, n=3, layout=layout, pool=False, infer=False)
    rng = np.random.RandomState(13)
    p = {}
    for nm, ci, co, k, st in layout()[0]:
        p[nm + "_w"] = (rng.randn(co, ci, k, k) * np.sqrt(2.0 / (ci * k * k))).astype("float32")
        p[nm + "_g"] = np.ones(co, "float32")
        p[nm + "_b"] = np.zeros(co, "float32")
    p["fc_w"] = (rng.randn(64, 10) * 0.1).astype("float32")
    p["fc_b"] = np.zeros(10, "float32")
    batches = [dict(x=rng.rand(32, 3, 32, 32).astype("float32"), y=rng.randint(10, size=(32, 1)).astype("int64"))
               for _ in range(4)]
    return Spec(cfg, p, batches, rtol=1e-3)
