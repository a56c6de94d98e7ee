"""Straight-line NumPy ResNet-20: activations HNWC, convs by width unfolding + overlapping GEMM operands, per-channel
vectors tiled to long rows so that broadcasting runs over whole rows, batch split over the team with a join at every
batch norm, one flat momentum update."""
import numpy as np
from npfloor import BLOCK, Conv, Team, arenas, blas_threads, f4, softmax_ce, threads


def build(spec, variant):
    if variant != "floor":
        raise ValueError("no separate version")
    B = spec.batch
    T = threads()
    n = B // T
    blas_threads(1)
    team = Team(T)
    convs, blocks = spec.layout()
    init = {}
    for nm, ci, co, k, st in convs:
        init[nm + "_w"] = spec.params[nm + "_w"].transpose(2, 3, 1, 0).reshape(k * k * ci, co)
        init[nm + "_g"], init[nm + "_b"] = spec.params[nm + "_g"], spec.params[nm + "_b"]
    init["fc_w"], init["fc_b"] = spec.params["fc_w"], spec.params["fc_b"]
    (P, p), (V, _), *gr = arenas(init, 2 + T)
    V.fill(0)
    add, mul, sub, dot, mx = np.add, np.multiply, np.subtract, np.dot, np.maximum
    pools = [{} for _ in range(T)]
    zero = np.array(0, f4)
    zeros = np.zeros(BLOCK, f4)

    def rows_of(a):
        """Views of a contiguous array as cache-sized row blocks whose row length is a multiple of the channel count."""
        w = a.shape[-1] * a.shape[-2]
        v = a.reshape(-1, w)
        r = max(1, BLOCK // w)
        return [v[i:i + r] for i in range(0, v.shape[0], r)], w

    class CB:
        """conv + batch norm, forward and backward, each split into phases between which the team joins."""

        def __init__(self, c, H, first=False):
            self.nm, ci, co, k, st = c
            self.co, self.k, self.H = co, k, H // st
            self.OH = OH = H // st
            self.cv = [Conv(n, ci, H, H, co, k, k // 2, need_dx=not first, stride=st, pool=pools[t]) for t in range(T)]
            self.y = [np.empty((OH, n * OH, co), f4) for _ in range(T)]        # conv output, then normalised values
            self.M = B * OH * OH
            self.rows = [rows_of(self.y[t].reshape(OH, n, OH, co)) for t in range(T)]
            self.w = self.rows[0][1]
            self.rep = self.w // co
            self.s1, self.s2 = np.empty((T, co), f4), np.empty((T, co), f4)
            self.tmp = [np.empty_like(self.rows[t][0][0]) for t in range(T)]
            self.W, self.g, self.b = p[self.nm + "_w"], p[self.nm + "_g"], p[self.nm + "_b"]
            self.d = [gr[t][1] for t in range(T)]

        def conv(self, t, x):
            self.cv[t].forward(x, self.W, self.y[t])
            a, b = np.zeros(self.w, f4), np.zeros(self.w, f4)
            for v in self.rows[t][0]:
                on = np.ones(v.shape[0], f4)
                u = self.tmp[t][:v.shape[0]]
                a += dot(on, v)
                mul(v, v, out=u)
                b += dot(on, u)
            self.s1[t] = a.reshape(-1, self.co).sum(0)
            self.s2[t] = b.reshape(-1, self.co).sum(0)

        def stats(self):
            m = self.s1.sum(0, dtype="f8") / self.M
            v = np.maximum(self.s2.sum(0, dtype="f8") / self.M - m * m, 0)
            self.rstd = 1 / np.sqrt(v + 1e-5)
            self.tr = np.tile(self.rstd.astype(f4), self.rep)
            self.tm = np.tile((m * self.rstd).astype(f4), self.rep)
            self.tg, self.tb = np.tile(self.g, self.rep), np.tile(self.b, self.rep)

        def norm(self, t, out, relu, skip=None):
            """y becomes the normalised value; out = relu(y * g + b + skip)"""
            o = out.reshape(-1, self.w)
            k = None if skip is None else skip.reshape(-1, self.w)
            i = 0
            for v in self.rows[t][0]:
                r = v.shape[0]
                mul(v, self.tr, out=v)
                sub(v, self.tm, out=v)
                w = o[i:i + r]
                mul(v, self.tg, out=w)
                add(w, self.tb, out=w)
                if k is not None:
                    add(w, k[i:i + r], out=w)
                if relu:
                    mx(w, zeros[:w.size].reshape(w.shape), out=w)
                i += r

        def back1(self, t, g):
            """partial sums of g and g * xhat"""
            a, b = np.zeros(self.w, f4), np.zeros(self.w, f4)
            gg = g.reshape(-1, self.w)
            i = 0
            for v in self.rows[t][0]:
                r = v.shape[0]
                on = np.ones(r, f4)
                u = self.tmp[t][:r]
                q = gg[i:i + r]
                a += dot(on, q)
                mul(q, v, out=u)
                b += dot(on, u)
                i += r
            self.s1[t] = a.reshape(-1, self.co).sum(0)
            self.s2[t] = b.reshape(-1, self.co).sum(0)

        def bstats(self):
            db, dg = self.s1.sum(0), self.s2.sum(0)
            for t in range(T):                      # the arenas of the team are added up later
                self.d[t][self.nm + "_b"][...] = db if t == 0 else 0
                self.d[t][self.nm + "_g"][...] = dg if t == 0 else 0
            k = (self.g * self.rstd).astype(f4)
            self.k1, self.k2 = np.tile(k, self.rep), np.tile(k * db / f4(self.M), self.rep)
            self.k3 = np.tile(k * dg / f4(self.M), self.rep)

        def back2(self, t, g, out, dx=True):
            """out: gradient of the conv output; returns the gradient of the conv input"""
            gg, o = g.reshape(-1, self.w), out.reshape(-1, self.w)
            i = 0
            for v in self.rows[t][0]:
                r = v.shape[0]
                u, w = self.tmp[t][:r], o[i:i + r]
                mul(v, self.k3, out=u)
                add(u, self.k2, out=u)
                mul(gg[i:i + r], self.k1, out=w)
                sub(w, u, out=w)
                i += r
            o3 = out.reshape(self.OH, n * self.OH, self.co)
            self.cv[t].grad_w(o3, self.d[t][self.nm + "_w"])
            return self.cv[t].grad_x(o3, self.W) if dx else None

    def act(H, C):
        return [np.empty((H, n, H, C), f4) for _ in range(T)]

    H = 32
    stem = CB(convs[0], H, first=True)
    net = []
    for a, b, s in blocks:
        ca = CB(a, H)
        cs = CB(s, H) if s else None
        H = H // a[4]
        cb = CB(b, H)
        net.append((ca, cb, cs, act(H, a[2]), act(H, b[2]), act(H, b[2]) if s else None))
    x0, a0 = act(32, 3), act(32, 16)
    gbuf = [{} for _ in range(T)]

    def scratch(t, like, tag):
        k = (tag, like.shape)
        if k not in gbuf[t]:
            gbuf[t][k] = np.empty(like.shape, f4)
        return gbuf[t][k]
    fs = [np.empty((n, 64), f4) for _ in range(T)]
    z, g = [np.empty((n, 10), f4) for _ in range(T)], [np.empty((n, 10), f4) for _ in range(T)]
    ce = [softmax_ce(n, 10, scale=1.0 / B) for _ in range(T)]
    ones = np.ones(n, f4)
    losses, cur = [0.0] * T, {}
    mask = [{} for _ in range(T)]

    def relu_back(t, g, y, out):
        """out = g where y > 0"""
        gf, yf, of = g.reshape(-1), y.reshape(-1), out.reshape(-1)
        m = mask[t].setdefault("m", np.empty(BLOCK, bool))
        w = mask[t].setdefault("w", np.empty(BLOCK, f4))
        for i in range(0, gf.size, BLOCK):
            b = gf[i:i + BLOCK]
            k = b.size
            np.greater(yf[i:i + k], zero, out=m[:k])
            np.copyto(w[:k], m[:k])
            mul(b, w[:k], out=of[i:i + k])

    state = [None] * T

    def f_in(t):
        np.copyto(x0[t], cur["x"][t * n:(t + 1) * n].transpose(2, 0, 3, 1))
        stem.conv(t, x0[t])

    def forward():
        team.run(f_in)
        stem.stats()
        prev, out = (stem, a0, True, None), a0
        for ca, cb, cs, ha, hb, hs in net:
            def f1(t):
                c, o, r, k = prev
                c.norm(t, o[t], r, None if k is None else k[t])
                ca.conv(t, o[t])
                if cs:
                    cs.conv(t, o[t])
            team.run(f1)
            ca.stats()
            if cs:
                cs.stats()

            def f2(t):
                ca.norm(t, ha[t], True)
                if cs:
                    cs.norm(t, hs[t], False)
                cb.conv(t, ha[t])
            team.run(f2)
            cb.stats()
            prev = (cb, hb, True, hs if cs else prev[1])

        def f3(t):
            c, o, r, k = prev
            c.norm(t, o[t], r, k[t])
            h = o[t]
            add.reduce(h, axis=(0, 2), out=fs[t])
            mul(fs[t], f4(1.0 / (h.shape[0] * h.shape[2])), out=fs[t])
            dot(fs[t], p["fc_w"], out=z[t])
            add(z[t], p["fc_b"], out=z[t])
            losses[t] = ce[t](z[t], cur["y"][t * n:(t + 1) * n], g[t])
            dot(fs[t].T, g[t], out=gr[t][1]["fc_w"])
            dot(ones, g[t], out=gr[t][1]["fc_b"])
            d = dot(g[t], p["fc_w"].T)
            d *= f4(1.0 / (h.shape[0] * h.shape[2]))
            q = scratch(t, h, "dout")
            q[...] = d[None, :, None, :]
            state[t] = q
        team.run(f3)

    def backward():
        for i in range(len(net) - 1, -1, -1):
            ca, cb, cs, ha, hb, hs = net[i]

            def b1(t):
                q = scratch(t, hb[t], "dskip")
                relu_back(t, state[t], hb[t], q)
                cb.back1(t, q)
                if cs:
                    cs.back1(t, q)
            team.run(b1)
            cb.bstats()
            if cs:
                cs.bstats()

            def b2(t):
                q = scratch(t, hb[t], "dskip")
                d = cb.back2(t, q, scratch(t, hb[t], "dconv"))
                u = scratch(t, ha[t], "da")
                relu_back(t, d, ha[t], u)
                ca.back1(t, u)
            team.run(b2)
            ca.bstats()

            def b3(t):
                q = scratch(t, hb[t], "dskip")
                u = scratch(t, ha[t], "da")
                d = ca.back2(t, u, scratch(t, ha[t], "dconv"))
                o = scratch(t, d, "dout")
                if cs:
                    np.copyto(o, d)
                    e = cs.back2(t, q, scratch(t, hb[t], "dconv"))
                    add(o, e, out=o)
                else:
                    add(d, q, out=o)
                state[t] = o
            team.run(b3)

        def b4(t):
            q = scratch(t, a0[t], "dskip")
            relu_back(t, state[t], a0[t], q)
            stem.back1(t, q)
        team.run(b4)
        stem.bstats()
        team.run(lambda t: stem.back2(t, scratch(t, a0[t], "dskip"), scratch(t, a0[t], "dconv"), dx=False))

    g0 = gr[0][0]
    mu, lr, wd = (np.array(v, f4) for v in (spec.mu, spec.lr, spec.wd))
    S = np.empty_like(P)

    def step():
        cur.update(spec.next())
        forward()
        backward()
        for t in range(1, T):
            add(g0, gr[t][0], out=g0)
        mul(P, wd, out=S)
        add(g0, S, out=g0)
        mul(V, mu, out=V)
        add(V, g0, out=V)
        mul(V, lr, out=S)
        sub(P, S, out=P)
        return sum(losses) / B
    return step
