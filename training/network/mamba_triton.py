"""What lies between the first and the last linear layer of Mamba, as Triton kernels: causal convolution, selection,
scan, gate.

    u, z = convolve(x), z        of xz [N,T,2D] = x and z side by side
    dt, B, C = u @ select.T      select [D+2S,D]: the step sizes' two matrices are multiplied out beforehand
    y = scan(u, softplus(dt + bias), A, B, C, Dv)
    g = y * silu(z)              -> [N,T,D]

As separate operations these are some forty passes over maps of D channels forward and back, and matrices a few columns
wide; here a map is read where it is used, and written once. D is a power of two. net.py's Mamba is the definition.
"""
import torch
import triton
import triton.language as tl

from training.network.prefetch import WORKS, prefetch

SEQUENCES, RUN = 8, 48                                  # of the convolution's programs: sequences, time steps
CHANNELS = 32                                           # of a program of the scan, which is one warp; `large` has 24
                                                        # on a multiprocessor, whose registers hold all, or half
KEEP = 32                                               # steps between states that the scan keeps for its gradients
AHEAD = 4 if WORKS else 0                               # steps of the scan whose inputs are prefetched


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp2(-1.4426950408889634 * x))


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp2(-1.4426950408889634 * tl.abs(x)))


@triton.jit
def _convolve(xz, w, b, u, N, T: tl.constexpr, D: tl.constexpr, K: tl.constexpr, G: tl.constexpr, RUN: tl.constexpr):
    """Each program walks through RUN time steps of G sequences with the last inputs in registers; K is 4."""
    n = (tl.program_id(0) * G + tl.arange(0, G)).to(tl.int64)[:, None]
    d = tl.arange(0, D)[None, :]
    there = n < N
    w0, w1, w2, w3 = tl.load(w + d * K), tl.load(w + d * K + 1), tl.load(w + d * K + 2), tl.load(w + d * K + 3)
    bias = tl.load(b + d)
    first = tl.program_id(1) * RUN
    at = xz + n * T * (2 * D) + d
    to = u + n * T * D + d
    x0 = tl.load(at + (first - 3) * (2 * D), mask=there & (first >= 3), other=0.0).to(tl.float32)
    x1 = tl.load(at + (first - 2) * (2 * D), mask=there & (first >= 2), other=0.0).to(tl.float32)
    x2 = tl.load(at + (first - 1) * (2 * D), mask=there & (first >= 1), other=0.0).to(tl.float32)
    for i in range(RUN):
        t = first + i
        x3 = tl.load(at + t * (2 * D), mask=there & (t < T), other=0.0).to(tl.float32)
        p = bias + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
        tl.store(to + t * D, (p * _sigmoid(p)).to(u.dtype.element_ty), mask=there & (t < T))
        x0, x1, x2 = x1, x2, x3


@triton.jit
def _convolve_bwd(xz, w, b, du, dxz, dw, db, N, T: tl.constexpr, D: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
                  RUN: tl.constexpr):
    """dxz gets the first half of its rows. Three steps beyond the run are computed for the inputs that reach into them.

    The sums d1, d2, d3 change at each step. Were it the last three gradients that move on from one variable to the
    next, all zero at first, Triton 3.6's compiler (not its interpreter) would take them for zero ever after.
    """
    n = (tl.program_id(0) * G + tl.arange(0, G)).to(tl.int64)[:, None]
    d = tl.arange(0, D)[None, :]
    there = n < N
    w0, w1, w2, w3 = tl.load(w + d * K), tl.load(w + d * K + 1), tl.load(w + d * K + 2), tl.load(w + d * K + 3)
    bias = tl.load(b + d)
    first = tl.program_id(1) * RUN
    end = tl.minimum(first + RUN, T)
    at = xz + n * T * (2 * D) + d
    to = dxz + n * T * (2 * D) + d
    g = du + n * T * D + d
    x0 = tl.load(at + (first - 3) * (2 * D), mask=there & (first >= 3), other=0.0).to(tl.float32)
    x1 = tl.load(at + (first - 2) * (2 * D), mask=there & (first >= 2), other=0.0).to(tl.float32)
    x2 = tl.load(at + (first - 1) * (2 * D), mask=there & (first >= 1), other=0.0).to(tl.float32)
    zero = tl.zeros((G, D), dtype=tl.float32)
    d1, d2, d3 = zero, zero, zero                       # of the next inputs' gradients, what is there so far
    a0, a1, a2, a3, ab = zero, zero, zero, zero, zero
    for i in range(RUN + 3):
        t = first + i
        x3 = tl.load(at + t * (2 * D), mask=there & (t < T), other=0.0).to(tl.float32)
        p = bias + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
        s = _sigmoid(p)
        dp = tl.load(g + t * D, mask=there & (t < T), other=0.0).to(tl.float32) * s * (1 + p * (1 - s))
        own = tl.where(t < end, dp, 0.0)
        a0 += own * x0
        a1 += own * x1
        a2 += own * x2
        a3 += own * x3
        ab += own
        dx = d1 + w0 * dp
        tl.store(to + (t - 3) * (2 * D), dx.to(dxz.dtype.element_ty), mask=there & (i >= 3) & (t - 3 < T))
        x0, x1, x2 = x1, x2, x3
        d1, d2, d3 = d2 + w1 * dp, d3 + w2 * dp, w3 * dp
    c = tl.arange(0, D)
    tl.atomic_add(dw + c * K, tl.sum(a0, 0))
    tl.atomic_add(dw + c * K + 1, tl.sum(a1, 0))
    tl.atomic_add(dw + c * K + 2, tl.sum(a2, 0))
    tl.atomic_add(dw + c * K + 3, tl.sum(a3, 0))
    tl.atomic_add(db + c, tl.sum(ab, 0))


@triton.jit
def _scan(u, dbc, xz, bias, A, Dv, y, g, kept, T: tl.constexpr, D: tl.constexpr, S: tl.constexpr, BD: tl.constexpr,
          KEEP: tl.constexpr,
          AHEAD: tl.constexpr):
    """A program is one warp and walks through time; the next step's inputs are loaded before the present step is
    computed. kept: the states that every KEEP steps begin with."""
    W: tl.constexpr = D + 2 * S
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    s = tl.arange(0, S)
    ds = d[:, None] * S + s[None, :]
    a = tl.load(A + ds) * 1.4426950408889634            # exp(x) = exp2(x log2 e)
    dv, db = tl.load(Dv + d), tl.load(bias + d)
    h = tl.zeros((BD, S), dtype=tl.float32)
    o = n * T
    to = kept + n * ((T + KEEP - 1) // KEEP) * (D * S) + ds
    un, dtn, zn = tl.load(u + o * D + d), tl.load(dbc + o * W + d), tl.load(xz + o * (2 * D) + D + d)
    bn, cn = tl.load(dbc + o * W + D + s), tl.load(dbc + o * W + D + S + s)
    for t in range(T):
        tl.store(to + t // KEEP * (D * S), h, mask=(t % KEEP == 0) & (ds >= 0))
        ut, dt, z = un.to(tl.float32), _softplus(dtn.to(tl.float32) + db), zn.to(tl.float32)
        b, c = bn.to(tl.float32), cn.to(tl.float32)
        p = n * T + tl.minimum(t + 1, T - 1)
        un, dtn, zn = tl.load(u + p * D + d), tl.load(dbc + p * W + d), tl.load(xz + p * (2 * D) + D + d)
        bn, cn = tl.load(dbc + p * W + D + s), tl.load(dbc + p * W + D + S + s)
        if AHEAD:
            p = n * T + tl.minimum(t + AHEAD, T - 1)
            prefetch(u + p * D + d)
            prefetch(dbc + p * W + d)
            prefetch(dbc + p * W + D + tl.arange(0, 2 * S))
            prefetch(xz + p * (2 * D) + D + d)
        h = tl.exp2(dt[:, None] * a) * h + (dt * ut)[:, None] * b[None, :]
        v = tl.sum(h * c[None, :], 1) + dv * ut
        tl.store(y + o * D + d, v.to(y.dtype.element_ty))
        tl.store(g + o * D + d, (v * z * _sigmoid(z)).to(g.dtype.element_ty))
        o += 1


@triton.jit
def _states(u, dbc, bias, A, kept, hs, T: tl.constexpr, D: tl.constexpr, S: tl.constexpr, BD: tl.constexpr,
            KEEP: tl.constexpr):
    """The state after each step, from those that are kept: KEEP steps a program, which together are limited by what
    memory takes."""
    W: tl.constexpr = D + 2 * S
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    k = tl.program_id(2)
    s = tl.arange(0, S)
    ds = d[:, None] * S + s[None, :]
    a = tl.load(A + ds) * 1.4426950408889634
    db = tl.load(bias + d)
    h = tl.load(kept + (n * tl.num_programs(2) + k) * (D * S) + ds)
    for i in range(KEEP):
        t = k * KEEP + i
        o = n * T + tl.minimum(t, T - 1)
        ut, dt = tl.load(u + o * D + d).to(tl.float32), tl.load(dbc + o * W + d).to(tl.float32)
        b = tl.load(dbc + o * W + D + s).to(tl.float32)
        dt = _softplus(dt + db)
        h = tl.exp2(dt[:, None] * a) * h + (dt * ut)[:, None] * b[None, :]
        tl.store(hs + o * (D * S) + ds, h.to(hs.dtype.element_ty), mask=t < T)


@triton.jit
def _scan_bwd(u, dbc, xz, bias, A, Dv, y, hs, dg, du, ddbc, dxz, part, dbias, dA, dD, T: tl.constexpr, D: tl.constexpr,
              S: tl.constexpr, BD: tl.constexpr):
    """part [blocks of channels,N,T,2S]: their shares of the gradients of B and C, in float32. These sums over channels
    are matrix products of which one column is used: that takes fewer instructions than exchanges between lanes."""
    W: tl.constexpr = D + 2 * S
    n = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    d = block * BD + tl.arange(0, BD)
    s = tl.arange(0, S)
    ds = d[:, None] * S + s[None, :]
    a = tl.load(A + ds) * 1.4426950408889634            # exp(x) = exp2(x log2 e)
    dv, db = tl.load(Dv + d), tl.load(bias + d)
    dh = tl.zeros((BD, S), dtype=tl.float32)
    da_acc = tl.zeros((BD, S), dtype=tl.float32)
    dd_acc = tl.zeros((BD,), dtype=tl.float32)
    db_acc = tl.zeros((BD,), dtype=tl.float32)
    o = n * T + T - 1
    h = tl.load(hs + o * (D * S) + ds)
    un, dtn, zn = tl.load(u + o * D + d), tl.load(dbc + o * W + d), tl.load(xz + o * (2 * D) + D + d)
    yn, gn = tl.load(y + o * D + d), tl.load(dg + o * D + d)
    bn, cn = tl.load(dbc + o * W + D + s), tl.load(dbc + o * W + D + S + s)
    hn = tl.load(hs + (n * T + tl.maximum(T - 2, 0)) * (D * S) + ds)
    to = part + ((block * tl.num_programs(0) + n) * T + T - 1) * (2 * S)
    for k in range(T):
        t = T - 1 - k
        ut, raw, z = un.to(tl.float32), dtn.to(tl.float32) + db, zn.to(tl.float32)
        yt, g = yn.to(tl.float32), gn.to(tl.float32)
        b, c = bn.to(tl.float32), cn.to(tl.float32)
        hp = hn
        begun = tl.where(t > 0, 1.0, 0.0)               # before the first step there is no state
        p = n * T + tl.maximum(t - 1, 0)
        un, dtn, zn = tl.load(u + p * D + d), tl.load(dbc + p * W + d), tl.load(xz + p * (2 * D) + D + d)
        yn, gn = tl.load(y + p * D + d), tl.load(dg + p * D + d)
        bn, cn = tl.load(dbc + p * W + D + s), tl.load(dbc + p * W + D + S + s)
        hn = tl.load(hs + (n * T + tl.maximum(t - 2, 0)) * (D * S) + ds)

        dt, open_ = _softplus(raw), _sigmoid(z)
        tl.store(dxz + o * (2 * D) + D + d, (g * yt * open_ * (1 + z * (1 - open_))).to(dxz.dtype.element_ty))
        g = g * z * open_
        dtu = dt * ut
        dh += g[:, None] * c[None, :]
        at = s[:, None] + tl.arange(0, 8)[None, :]      # the least width that a product has
        tl.store(to + S + at, tl.dot(tl.trans(h.to(tl.float32)), tl.broadcast_to(g[:, None], (BD, 8))),
                 mask=at == s[:, None])
        tl.store(to + at, tl.dot(tl.trans(dh), tl.broadcast_to(dtu[:, None], (BD, 8))), mask=at == s[:, None])
        dhe = dh * tl.exp2(dt[:, None] * a)
        dha = dhe * hp.to(tl.float32)
        dhb = tl.sum(dh * b[None, :], 1)
        da_acc += dha * (dt * begun)[:, None]
        draw = (tl.sum(dha * a, 1) * (begun * 0.6931471805599453) + dhb * ut) * _sigmoid(raw)
        tl.store(ddbc + o * W + d, draw.to(ddbc.dtype.element_ty))
        tl.store(du + o * D + d, (dhb * dt + dv * g).to(du.dtype.element_ty))
        db_acc += draw
        dd_acc += g * ut
        dh = dhe
        h = hp
        o -= 1
        to -= 2 * S
    tl.atomic_add(dA + ds, da_acc)
    tl.atomic_add(dD + d, dd_acc)
    tl.atomic_add(dbias + d, db_acc)


def _grid(N, T):
    return triton.cdiv(N, SEQUENCES), triton.cdiv(T, RUN)


@torch.library.custom_op("primeknet::mamba", mutates_args=())
def mamba_op(xz: torch.Tensor, conv_w: torch.Tensor, conv_b: torch.Tensor, select: torch.Tensor, bias: torch.Tensor,
             A: torch.Tensor,
             Dv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """xz [N,T,2D], conv_w [D,4], conv_b [D], select [D+2S,D], bias [D], A [D,S], Dv [D] -> g [N,T,D]; and for the
    gradients u, dbc, y and every KEEPth state."""
    N, T, D, S = *xz.shape[:2], xz.shape[2] // 2, A.shape[1]
    u, y, g = (xz.new_empty(N, T, D) for _ in range(3))
    _convolve[_grid(N, T)](xz, conv_w, conv_b, u, N, T, D, conv_w.shape[1], SEQUENCES, RUN, num_warps=4)
    dbc = u @ select.t()
    kept = xz.new_empty(N, triton.cdiv(T, KEEP), D, S, dtype=torch.float32)
    BD = min(D, CHANNELS)
    _scan[(N, D // BD)](u, dbc, xz, bias, A, Dv, y, g, kept, T, D, S, BD, KEEP, AHEAD, num_warps=1, maxnreg=80)
    return g, u, dbc, y, kept


@mamba_op.register_fake
def _(xz, conv_w, conv_b, select, bias, A, Dv):
    N, T, D, S = *xz.shape[:2], xz.shape[2] // 2, A.shape[1]
    u, y, g = (xz.new_empty(N, T, D) for _ in range(3))
    return g, u, xz.new_empty(N, T, D + 2 * S), y, xz.new_empty(N, triton.cdiv(T, KEEP), D, S, dtype=torch.float32)


@torch.library.custom_op("primeknet::mamba_bwd", mutates_args=())
def mamba_bwd_op(xz: torch.Tensor, conv_w: torch.Tensor, conv_b: torch.Tensor, select: torch.Tensor, bias: torch.Tensor,
                 A: torch.Tensor, Dv: torch.Tensor,
                 u: torch.Tensor, dbc: torch.Tensor, y: torch.Tensor, kept: torch.Tensor,
                 dg: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor,
                                            torch.Tensor, torch.Tensor]:
    """The gradients of mamba_op's seven inputs, from them, what it kept and dg [N,T,D]."""
    N, T, D, S = *xz.shape[:2], xz.shape[2] // 2, A.shape[1]
    BD = min(D, CHANNELS)
    dxz, du, ddbc = torch.empty_like(xz), torch.empty_like(u), torch.empty_like(dbc)
    part = torch.empty(D // BD, N, T, 2 * S, device=xz.device)
    sums = torch.zeros(D * (S + 2 + conv_w.shape[1] + 1), device=xz.device)
    dA, dD, dbias, dw, db = sums.split([D * S, D, D, conv_w.numel(), D])
    hs = torch.empty(N, T, D, S, dtype=torch.bfloat16, device=xz.device)
    _states[(N, D // BD, kept.shape[1])](u, dbc, bias, A, kept, hs, T, D, S, BD, KEEP, num_warps=1)
    _scan_bwd[(N, D // BD)](u, dbc, xz, bias, A, Dv, y, hs, dg.contiguous(), du, ddbc, dxz, part, dbias, dA, dD, T, D,
                            S, BD, num_warps=1, maxnreg=152)
    ddbc[..., D:] = part.sum(0)
    rows = ddbc.view(N * T, -1)
    dselect = rows.t() @ u.view(N * T, D)
    du.view(N * T, D).addmm_(rows, select)
    _convolve_bwd[_grid(N, T)](xz, conv_w, conv_b, du, dxz, dw, db, N, T, D, conv_w.shape[1], SEQUENCES, RUN,
                               num_warps=4)
    return dxz, dw.view(conv_w.shape).clone(), db.clone(), dselect, dbias.clone(), dA.view(A.shape).clone(), dD.clone()


@mamba_bwd_op.register_fake
def _(xz, conv_w, conv_b, select, bias, A, Dv, u, dbc, y, kept, dg):
    return tuple(torch.empty_like(x) for x in (xz, conv_w, conv_b, select, bias, A, Dv))


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs, *output[1:])


def _backward(ctx, dg, *_):
    return mamba_bwd_op(*ctx.saved_tensors, dg)


mamba_op.register_autograd(_backward, setup_context=_setup)
