"""Straight-line NumPy LSTM: gate-major layout (4H, n) so that gates are contiguous slices, one tanh for all four gates
(sigmoid(x) = tanh(x/2)/2 + 1/2 with the halves folded into the weights), all weight gradients as single GEMMs after
the loop, row-sparse exact Adagrad for the table, batch split over the team.

variant "naive": batch-major, fresh temporaries, dense embedding gradient with np.add.at."""
import numpy as np
from npfloor import BLOCK, RowMerge, Rows, Team, arenas, blas_threads, f4, softmax_ce, threads


def naive(spec):
    p = {k: v.copy() for k, v in spec.params.items()}
    m = {k: np.zeros_like(v) for k, v in p.items()}
    B, T, H = spec.batch, spec.seq, spec.hidden
    ar = np.arange(B)
    sig = lambda x: 1 / (1 + np.exp(-x))

    def step():
        b = spec.next()
        x, y = b["x"], b["y"][:, 0]
        e = p["emb"][x.T]
        h, c = np.zeros((B, H), f4), np.zeros((B, H), f4)
        tape, hs = [], []
        for t in range(T):
            g = e[t] @ p["wih"].T + p["bih"] + h @ p["whh"].T + p["bhh"]
            i, f, u, o = sig(g[:, :H]), sig(g[:, H:2 * H]), np.tanh(g[:, 2 * H:3 * H]), sig(g[:, 3 * H:])
            cn = f * c + i * u
            tc = np.tanh(cn)
            tape.append((h, c, i, f, u, o, tc))
            h, c = o * tc, cn
            hs.append(h)
        hs = np.stack(hs)
        mx = hs.max(0)
        z = mx @ p["W"] + p["b"]
        z = z - z.max(1, keepdims=True)
        s = np.exp(z)
        s = s / s.sum(1, keepdims=True)
        loss = -np.log(s[ar, y]).mean()
        s[ar, y] -= 1
        g = s / f4(B)
        G = dict(W=mx.T @ g, b=g.sum(0))
        dhs = (hs == mx) * (g @ p["W"].T)
        G["wih"], G["whh"], G["bih"] = np.zeros_like(p["wih"]), np.zeros_like(p["whh"]), np.zeros_like(p["bih"])
        de = np.empty_like(e)
        dh, dc = np.zeros((B, H), f4), np.zeros((B, H), f4)
        for t in reversed(range(T)):
            hp, cp, i, f, u, o, tc = tape[t]
            dh = dh + dhs[t]
            dc = dc + dh * o * (1 - tc * tc)
            da = np.concatenate([dc * u * i * (1 - i), dc * cp * f * (1 - f), dc * i * (1 - u * u), dh * tc * o * (1 - o)], 1)
            G["wih"] += da.T @ e[t]
            G["whh"] += da.T @ hp
            G["bih"] += da.sum(0)
            de[t] = da @ p["wih"]
            dh, dc = da @ p["whh"], dc * f
        G["bhh"] = G["bih"]
        d = np.zeros_like(p["emb"])
        np.add.at(d, x.T.reshape(-1), de.reshape(-1, spec.emb))
        G["emb"] = d
        for k in p:
            m[k] = m[k] + G[k] * G[k]
            p[k] = p[k] - f4(spec.lr) * G[k] / (np.sqrt(m[k]) + f4(spec.eps))
        return float(loss)
    return step


def build(spec, variant):
    if variant == "naive":
        return naive(spec)
    if variant == "cblas":
        raise ValueError("no separate version")
    B, S, H, D = spec.batch, spec.seq, spec.hidden, spec.emb
    T = threads()
    n = B // T
    blas_threads(1)
    team = Team(T)
    perm = np.r_[0:2 * H, 3 * H:4 * H, 2 * H:3 * H]          # i f g o -> i f o g
    P0 = spec.params
    init = dict(wih=P0["wih"][perm], whh=P0["whh"][perm], bih=P0["bih"][perm], bhh=P0["bhh"][perm], W=P0["W"], b=P0["b"])
    (P, p), (M, _), *gr = arenas(init, 2 + T)
    M.fill(0)
    emb, emom = P0["emb"].copy(), np.zeros_like(P0["emb"])
    rows, mrows, merge = Rows(emb, B * S), Rows(emom, B * S), RowMerge(B * S, D)
    half = np.ones((4 * H, 1), f4)
    half[:3 * H] = 0.5
    wihs, whhs = np.empty_like(p["wih"]), np.empty_like(p["whh"])
    bias = np.empty((4 * H, 1), f4)
    losses, cur = [0.0] * T, {}
    dE = np.empty((T, S * n, D), f4)
    ids = np.empty((T, S, n), "i8")
    hf, one = np.array(0.5, f4), np.array(1, f4)
    add, mul, tanh, sub, dot = np.add, np.multiply, np.tanh, np.subtract, np.dot

    def make(t):
        E = np.empty((S * n, D), f4)
        ET = E.reshape(S, n, D).transpose(0, 2, 1)
        X = np.empty((S, 4 * H, n), f4)
        Bt = np.empty((4 * H, n), f4)
        hs, cs, tcs = np.zeros((S + 1, H, n), f4), np.zeros((S + 1, H, n), f4), np.empty((S, H, n), f4)
        dv, otc = np.empty((S, 4 * H, n), f4), np.empty((S, H, n), f4)
        dA = np.empty((S, 4 * H, n), f4)
        dA2, h2 = np.empty((4 * H, S, n), f4), np.empty((H, S, n), f4)
        dhs = np.empty((S, H, n), f4)
        tmp, dc, dh, u = (np.empty((H, n), f4) for _ in range(4))
        mx, eq = np.empty((H, n), f4), np.empty((S, H, n), bool)
        z, g, dmx = np.empty((n, 2), f4), np.empty((n, 2), f4), np.empty((n, H), f4)
        ce = softmax_ce(n, 2, scale=1.0 / B)
        ones, onesT = np.ones(n, f4), np.ones(S * n, f4)
        grad = gr[t][1]
        sl = slice(t * n, (t + 1) * n)
        steps = [(X[k], X[k][:3 * H], X[k][:H], X[k][H:2 * H], X[k][2 * H:3 * H], X[k][3 * H:], hs[k], cs[k], hs[k + 1],
                  cs[k + 1], tcs[k]) for k in range(S)]
        back = [(dA[k], dA[k][:H], dA[k][H:2 * H], dA[k][2 * H:3 * H], dA[k][3 * H:], X[k][:H], X[k][H:2 * H], X[k][3 * H:],
                 cs[k], tcs[k], otc[k], dv[k], dhs[k - 1] if k else None) for k in range(S)]

        def fb():
            np.copyto(ids[t], cur["x"][sl].T)
            np.take(emb, ids[t].reshape(-1), axis=0, out=E, mode="clip")
            np.matmul(wihs, ET, out=X)
            np.copyto(Bt, bias)
            add(X.reshape(S, -1), Bt.reshape(-1), out=X.reshape(S, -1))
            for G, ifo, i, f, o, gg, h, c, hn, cn, tc in steps:
                dot(whhs, h, out=dA0)
                add(G, dA0, out=G)
                tanh(G, out=G)
                mul(ifo, hf, out=ifo)
                add(ifo, hf, out=ifo)
                mul(f, c, out=cn)
                mul(i, gg, out=tmp)
                add(cn, tmp, out=cn)
                tanh(cn, out=tc)
                mul(o, tc, out=hn)
            np.maximum.reduce(hs[1:], axis=0, out=mx)
            dot(mx.T, p["W"], out=z)
            add(z, p["b"], out=z)
            losses[t] = ce(z, cur["y"][sl], g)
            dot(mx, g, out=grad["W"])
            dot(ones, g, out=grad["b"])
            dot(p["W"], g.T, out=u)
            np.equal(hs[1:], mx, out=eq)
            mul(u, eq, out=dhs)
            # derivatives of all gates of all steps at once: s(1-s) and 1-g^2, and o(1-tanh(c)^2)
            ifo, gg = X[:, :3 * H], X[:, 3 * H:]
            d1, d2 = dv[:, :3 * H], dv[:, 3 * H:]
            for k in range(S):
                sub(one, ifo[k], out=d1[k])
                mul(d1[k], ifo[k], out=d1[k])
                mul(gg[k], gg[k], out=d2[k])
                sub(one, d2[k], out=d2[k])
                mul(tcs[k], tcs[k], out=otc[k])
                sub(one, otc[k], out=otc[k])
                mul(otc[k], X[k][2 * H:3 * H], out=otc[k])
            dc.fill(0)
            np.copyto(dh, dhs[S - 1])
            wT = p["whh"].T
            for da, di, df, do, dg, i, f, gg, c, tc, oc, v, nx in reversed(back):
                mul(dh, tc, out=do)
                mul(dh, oc, out=tmp)
                add(dc, tmp, out=dc)
                mul(dc, gg, out=di)
                mul(dc, c, out=df)
                mul(dc, i, out=dg)
                mul(da, v, out=da)
                if nx is not None:
                    mul(dc, f, out=dc)
                    dot(wT, da, out=dh)
                    add(dh, nx, out=dh)
            np.copyto(dA2, dA.transpose(1, 0, 2))
            np.copyto(h2, hs[:S].transpose(1, 0, 2))
            a2 = dA2.reshape(4 * H, -1)
            dot(a2, E, out=grad["wih"])
            dot(a2, h2.reshape(H, -1).T, out=grad["whh"])
            dot(a2, onesT, out=grad["bih"])
            np.copyto(grad["bhh"], grad["bih"])
            dot(a2.T, p["wih"], out=dE[t])
        dA0 = np.empty((4 * H, n), f4)
        return fb
    parts = [make(t) for t in range(T)]
    run = lambda t: parts[t]()
    g0 = gr[0][0]
    S1 = np.empty_like(P)
    eps, lr = np.array(spec.eps, f4), np.array(spec.lr, f4)

    def step():
        cur.update(spec.next())
        mul(p["wih"], half, out=wihs)
        mul(p["whh"], half, out=whhs)
        add(p["bih"], p["bhh"], out=bias[:, 0])
        mul(bias, half, out=bias)
        team.run(run)
        for t in range(1, T):
            add(g0, gr[t][0], out=g0)
        mul(g0, g0, out=S1)
        add(M, S1, out=M)
        np.sqrt(M, out=S1)
        add(S1, eps, out=S1)
        np.divide(g0, S1, out=S1)
        mul(S1, lr, out=S1)
        sub(P, S1, out=P)
        u, d = merge(ids.reshape(-1), dE.reshape(-1, D))      # Adagrad leaves rows with zero gradient as they are
        mo = mrows.get(u)
        q = d * d
        add(mo, q, out=mo)
        mrows.put(u, mo)
        np.sqrt(mo, out=mo)
        add(mo, eps, out=mo)
        np.divide(d, mo, out=d)
        mul(d, lr, out=d)
        r = rows.get(u)
        sub(r, d, out=r)
        rows.put(u, r)
        return sum(losses) / B
    return step
