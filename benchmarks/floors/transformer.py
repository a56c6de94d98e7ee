"""Straight-line NumPy transformer encoder: batch split over the team with single-thread BLAS, elementwise and row work in
L2-sized row blocks, attention as batched GEMMs on strided views of the packed QKV, Adam on one flat arena."""
import numpy as np
from npfloor import Team, adam_blocks, arenas, blas_threads, f4, softmax_ce, threads


def build(spec, variant):
    if variant != "floor":
        raise ValueError("no separate version")
    B, S, D, Hn, F, L = spec.batch, spec.seq, spec.d, spec.heads, spec.ffn, spec.layers
    dh = D // Hn
    T = threads()
    n = B // T
    N = n * S
    blas_threads(1)
    team = Team(T)
    (P, p), (M, _), (V, _), *gr = arenas(spec.params, 3 + T)
    M.fill(0)
    V.fill(0)
    losses, cur = [0.0] * T, {}
    add, mul, sub, dot, div, exp, ab = np.add, np.multiply, np.subtract, np.dot, np.divide, np.exp, np.absolute
    one, half, mhalf = np.array(1, f4), np.array(0.5, f4), np.array(-0.5, f4)
    eps, sc = np.array(1e-5, f4), np.array(dh ** -0.5, f4)
    pp = np.array(0.3275911 / 2 ** 0.5, f4)
    A5, A4, A3, A2, A1 = (np.array(v, f4) for v in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
    ipi = np.array(1 / (2 * np.pi) ** 0.5, f4)
    colD = np.full((D, 1), 1.0 / D, f4)
    RB, GB = 64, 16                                           # rows per block: 64 x 256 and 16 x 1024 floats
    rb = [slice(i, i + RB) for i in range(0, N, RB)]
    gb = [slice(i, i + GB) for i in range(0, N, GB)]

    def make(t):
        gd = gr[t][1]
        w1, w2 = np.empty((RB, D), f4), np.empty((RB, D), f4)
        t1, t2 = np.empty((GB, F), f4), np.empty((GB, F), f4)
        ones, onesB = np.ones(N, f4), np.ones(RB, f4)
        Z = lambda *s: np.empty(s, f4)

        class Lay:
            pass
        lays = []
        for l in range(L):
            y = Lay()
            k = "l%d_" % l
            for q in ("wqkv", "bqkv", "wo", "bo", "g1", "c1", "w1", "b1", "w2", "b2", "g2", "c2"):
                setattr(y, q, p[k + q])
                setattr(y, "d" + q, gd[k + q])
            y.qkv = Z(N, 3 * D)
            y.q, y.k, y.v = y.qkv.reshape(n, S, 3, Hn, dh).transpose(2, 0, 3, 1, 4)
            y.P = Z(n, Hn, S, S)
            y.o = Z(N, D)
            y.oh = y.o.reshape(n, S, Hn, dh).transpose(0, 2, 1, 3)
            y.x1, y.x2 = Z(N, D), Z(N, D)                     # normalised values before gain and bias
            y.r1, y.r2 = Z(N, 1), Z(N, 1)
            y.y1, y.y2 = Z(N, D), Z(N, D)
            y.f, y.cdf, y.e, y.a = Z(N, F), Z(N, F), Z(N, F), Z(N, F)
            lays.append(y)
        s1, s2, dx, dqkv = Z(N, D), Z(N, D), Z(N, D), Z(N, 3 * D)
        dq, dk, dv = dqkv.reshape(n, S, 3, Hn, dh).transpose(2, 0, 3, 1, 4)
        dP, dF, do = Z(n, Hn, S, S), Z(N, F), Z(N, D)
        doh = do.reshape(n, S, Hn, dh).transpose(0, 2, 1, 3)
        rs = Z(n * Hn * S, 1)
        P2 = [y.P.reshape(-1, S) for y in lays]
        dP2 = dP.reshape(-1, S)
        pb = [slice(i, i + 256) for i in range(0, n * Hn * S, 256)]
        colS = np.ones((S, 1), f4)
        mb = Z(256, 1)
        pool, z, g = Z(n, D), Z(n, 10), Z(n, 10)
        ce = softmax_ce(n, 10, scale=1.0 / B)
        onesn = np.ones(n, f4)
        inv = np.array(1.0 / S, f4)

        def ln(a, res, bias, xh, r, gain, bet, out):
            """out = layer_norm(a + bias + res)"""
            for s in rb:
                v, x, q = a[s], xh[s], r[s]
                add(v, bias, out=v)
                add(v, res[s], out=v)
                sub(v, dot(v, colD), out=x)
                mul(x, x, out=w1)
                dot(w1, colD, out=q)
                add(q, eps, out=q)
                np.sqrt(q, out=q)
                div(one, q, out=q)
                mul(x, q, out=x)
                mul(x, gain, out=v)
                add(v, bet, out=out[s])

        def ln_b(d, xh, r, gain, dg, db, out):
            dg.fill(0)
            db.fill(0)
            for s in rb:
                v, x, o = d[s], xh[s], out[s]
                mul(v, x, out=w1)
                add(dg, dot(onesB, w1), out=dg)
                add(db, dot(onesB, v), out=db)
                mul(w1, gain, out=w1)
                m2 = dot(w1, colD)
                mul(v, gain, out=o)
                m1 = dot(o, colD)
                mul(x, m2, out=w2)
                sub(o, m1, out=o)
                sub(o, w2, out=o)
                mul(o, r[s], out=o)

        def gelu(y):
            for s in gb:
                x, c, e, a = y.f[s], y.cdf[s], y.e[s], y.a[s]
                add(x, y.b1, out=x)
                mul(x, x, out=e)
                mul(e, mhalf, out=e)
                exp(e, out=e)
                ab(x, out=t1)
                mul(t1, pp, out=t1)
                add(t1, one, out=t1)
                np.reciprocal(t1, out=t1)
                mul(t1, A5, out=c)
                for q in (A4, A3, A2, A1):
                    add(c, q, out=c)
                    mul(c, t1, out=c)
                mul(c, e, out=c)                              # erfc(|x|/sqrt 2)
                mul(c, mhalf, out=c)
                add(c, half, out=c)
                np.copysign(c, x, out=c)
                add(c, half, out=c)
                mul(x, c, out=a)

        def gelu_b(y, d):
            for s in gb:
                x, e, v = y.f[s], y.e[s], d[s]
                mul(x, e, out=t1)
                mul(t1, ipi, out=t1)
                add(t1, y.cdf[s], out=t1)
                mul(v, t1, out=v)

        def fb():
            sl = slice(t * n, (t + 1) * n)
            x0 = cur["x"][sl].reshape(N, D)
            x = x0
            for l, y in enumerate(lays):
                dot(x, y.wqkv, out=y.qkv)
                for s in rb:
                    v = y.qkv[s]
                    add(v, y.bqkv, out=v)
                np.matmul(y.q, y.k.swapaxes(-1, -2), out=y.P)
                for s in pb:
                    v, q = P2[l][s], rs[s]
                    np.maximum.reduce(v, axis=1, keepdims=True, out=mb)
                    sub(v, mb, out=v)
                    mul(v, sc, out=v)
                    exp(v, out=v)
                    dot(v, colS, out=q)
                    div(one, q, out=q)
                    mul(v, q, out=v)
                np.matmul(y.P, y.v, out=y.oh)
                dot(y.o, y.wo, out=s1)
                ln(s1, x, y.bo, y.x1, y.r1, y.g1, y.c1, y.y1)
                dot(y.y1, y.w1, out=y.f)
                gelu(y)
                dot(y.a, y.w2, out=s1)
                ln(s1, y.y1, y.b2, y.x2, y.r2, y.g2, y.c2, y.y2)
                x = y.y2
            np.add.reduce(x.reshape(n, S, D), axis=1, out=pool)
            mul(pool, inv, out=pool)
            dot(pool, p["W"], out=z)
            add(z, p["b"], out=z)
            losses[t] = ce(z, cur["y"][sl], g)
            dot(pool.T, g, out=gd["W"])
            dot(onesn, g, out=gd["b"])
            d0 = dot(g, p["W"].T)
            mul(d0, inv, out=d0)
            dx.reshape(n, S, D)[...] = d0[:, None]
            for l in range(L - 1, -1, -1):
                y = lays[l]
                x = lays[l - 1].y2 if l else x0
                ln_b(dx, y.x2, y.r2, y.g2, y.dg2, y.dc2, s1)            # s1: gradient of ffn output and of the skip
                dot(y.a.T, s1, out=y.dw2)
                dot(ones, s1, out=y.db2)
                dot(s1, y.w2.T, out=dF)
                gelu_b(y, dF)
                dot(y.y1.T, dF, out=y.dw1)
                dot(ones, dF, out=y.db1)
                dot(dF, y.w1.T, out=s2)
                add(s2, s1, out=s2)
                ln_b(s2, y.x1, y.r1, y.g1, y.dg1, y.dc1, s1)
                dot(y.o.T, s1, out=y.dwo)
                dot(ones, s1, out=y.dbo)
                dot(s1, y.wo.T, out=do)
                np.matmul(y.P.swapaxes(-1, -2), doh, out=dv)
                np.matmul(doh, y.v.swapaxes(-1, -2), out=dP)
                for s in pb:
                    a, b = P2[l][s], dP2[s]
                    u = a * b
                    sub(b, dot(u, colS), out=b)
                    mul(b, a, out=b)
                    mul(b, sc, out=b)
                np.matmul(dP, y.k, out=dq)
                np.matmul(dP.swapaxes(-1, -2), y.q, out=dk)
                dot(x.T, dqkv, out=y.dwqkv)
                dot(ones, dqkv, out=y.dbqkv)
                if l:
                    dot(dqkv, y.wqkv.T, out=dx)
                    add(dx, s1, out=dx)
        return fb
    parts = [make(t) for t in range(T)]
    run = lambda t: parts[t]()
    g0 = gr[0][0]
    upd = adam_blocks(P, g0, M, V, spec.lr, T=T)
    it = 0
    per = (P.size // T // 16 + 1) * 16

    def finish(t):
        s = slice(t * per, (t + 1) * per)
        for q in range(1, T):
            add(g0[s], gr[q][0][s], out=g0[s])
        upd(t, it)

    def step():
        nonlocal it
        cur.update(spec.next())
        team.run(run)
        it += 1
        team.run(finish)
        return sum(losses) / B
    return step
