"""The depthwise convolution of depthwise.py as Triton kernels.

A position is one (batch, time, frequency); positions are numbered through, so that a tap is a constant distance and
only the borders of frequency and time need a mask. Several maps have their outputs side by side, in rows of N channels.
"""
import torch
import triton
import triton.language as tl

from training.network.prefetch import WORKS, prefetch

PROGRAMS = {3: 132 * 2, 1: 132 * 6}                     # of the backward pass, for 132 multiprocessors


@triton.jit
def _fwd(x, w, y, P, T: tl.constexpr, F: tl.constexpr, C: tl.constexpr, N: tl.constexpr, KT: tl.constexpr,
         DT: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, C)[None, :]
    f = p % F
    t = (p // F) % T
    a = tl.zeros((BP, C), dtype=tl.float32)
    for kt in tl.static_range(KT):
        back = (KT - 1 - kt) * DT
        for kf in tl.static_range(3):
            o = kf - 1
            ok = (p < P) & (t >= back) & (f + o >= 0) & (f + o < F)
            v = tl.load(x + (p + o - back * F)[:, None] * C + c, mask=ok[:, None], other=0.0).to(tl.float32)
            a += v * tl.load(w + (kt * 3 + kf) * C + c)
    tl.store(y + p[:, None] * N + c, a.to(y.dtype.element_ty), mask=(p < P)[:, None])


@triton.jit
def _tap(k: tl.constexpr, ahead: tl.constexpr, dy, w, v, p, t, f, c, P, dx, sum, T: tl.constexpr, F: tl.constexpr,
         C: tl.constexpr, N: tl.constexpr):
    """One tap, three in frequency: what the output `ahead` frames later, k - 1 positions lower, adds to dx and to the
    tap's own gradient."""
    o: tl.constexpr = k % 3 - 1
    ok = (p < P) & (t + ahead < T) & (f - o >= 0) & (f - o < F)
    g = tl.load(dy + (p - o + ahead * F)[:, None] * N + c, mask=ok[:, None], other=0.0).to(tl.float32)
    return dx + g * tl.load(w + k * C + c), sum + g * v


@triton.jit
def _bwd(x, dy, w, dx, dw, P, T: tl.constexpr, F: tl.constexpr, C: tl.constexpr, N: tl.constexpr, KT: tl.constexpr,
         DT: tl.constexpr, BP: tl.constexpr, TILES: tl.constexpr,
         FETCH: tl.constexpr):
    """Computes both gradients from one read of dy; KT is 1 or 3. The taps' sums stay in registers from tile to tile."""
    c = tl.arange(0, C)[None, :]
    zero = tl.zeros((BP, C), dtype=tl.float32)
    a0, a1, a2, a3, a4, a5, a6, a7, a8 = zero, zero, zero, zero, zero, zero, zero, zero, zero
    for i in range(TILES):
        p = (i * tl.num_programs(0) + tl.program_id(0)) * BP + tl.arange(0, BP)
        f = p % F
        t = (p // F) % T
        if FETCH:                                       # the next tile, and the last gradients that reach into it
            q = tl.minimum(p + tl.num_programs(0) * BP, P - 1)[:, None]
            part = tl.arange(0, max(1, C // 16))[None, :] * 16
            prefetch(x + q * C + part)
            prefetch(dy + tl.minimum(q + (KT - 1) * DT * F, P - 1) * N + part)
        v = tl.load(x + p[:, None] * C + c, mask=(p < P)[:, None], other=0.0).to(tl.float32)
        d, a0 = _tap(0, (KT - 1) * DT, dy, w, v, p, t, f, c, P, zero, a0, T, F, C, N)
        d, a1 = _tap(1, (KT - 1) * DT, dy, w, v, p, t, f, c, P, d, a1, T, F, C, N)
        d, a2 = _tap(2, (KT - 1) * DT, dy, w, v, p, t, f, c, P, d, a2, T, F, C, N)
        if KT == 3:
            d, a3 = _tap(3, DT, dy, w, v, p, t, f, c, P, d, a3, T, F, C, N)
            d, a4 = _tap(4, DT, dy, w, v, p, t, f, c, P, d, a4, T, F, C, N)
            d, a5 = _tap(5, DT, dy, w, v, p, t, f, c, P, d, a5, T, F, C, N)
            d, a6 = _tap(6, 0, dy, w, v, p, t, f, c, P, d, a6, T, F, C, N)
            d, a7 = _tap(7, 0, dy, w, v, p, t, f, c, P, d, a7, T, F, C, N)
            d, a8 = _tap(8, 0, dy, w, v, p, t, f, c, P, d, a8, T, F, C, N)
        tl.store(dx + p[:, None] * C + c, d.to(dx.dtype.element_ty), mask=(p < P)[:, None])
    to = dw + tl.arange(0, C)
    tl.atomic_add(to, tl.sum(a0, 0))
    tl.atomic_add(to + C, tl.sum(a1, 0))
    tl.atomic_add(to + 2 * C, tl.sum(a2, 0))
    if KT == 3:
        tl.atomic_add(to + 3 * C, tl.sum(a3, 0))
        tl.atomic_add(to + 4 * C, tl.sum(a4, 0))
        tl.atomic_add(to + 5 * C, tl.sum(a5, 0))
        tl.atomic_add(to + 6 * C, tl.sum(a6, 0))
        tl.atomic_add(to + 7 * C, tl.sum(a7, 0))
        tl.atomic_add(to + 8 * C, tl.sum(a8, 0))


@torch.library.custom_op("primeknet::depthwise", mutates_args=())
def depthwise_op(maps: list[torch.Tensor], w: torch.Tensor, kt: int, dt: int) -> torch.Tensor:
    """n maps [B,T,F,C], w [n,kt*3,C] -> [B,T,F,n*C]; kt taps in the past at spacing dt, 3 centred in frequency."""
    B, T, F, C = maps[0].shape
    P, N, BP = B * T * F, C * len(maps), max(16, 2048 // C)
    y = maps[0].new_empty(B, T, F, N)
    for i, x in enumerate(maps):
        _fwd[(triton.cdiv(P, BP),)](x, w[i], y[..., i * C:], P, T, F, C, N, kt, dt, BP, num_warps=4)
    return y


@depthwise_op.register_fake
def _(maps, w, kt, dt):
    return maps[0].new_empty(*maps[0].shape[:3], maps[0].shape[3] * len(maps))


@torch.library.custom_op("primeknet::depthwise_bwd", mutates_args=())
def depthwise_bwd_op(maps: list[torch.Tensor], w: torch.Tensor, dy: torch.Tensor, kt: int,
                     dt: int) -> list[torch.Tensor]:
    """-> the gradient of w, then those of the maps"""
    B, T, F, C = maps[0].shape
    P, N, BP = B * T * F, C * len(maps), max(8, 1024 // C)
    tiles = triton.cdiv(triton.cdiv(P, BP), PROGRAMS[kt])
    dw, dmaps = torch.zeros(w.shape, device=w.device), [torch.empty_like(x) for x in maps]
    for i, x in enumerate(maps):
        _bwd[(triton.cdiv(P, BP * tiles),)](x, dy[..., i * C:], w[i], dmaps[i], dw[i], P, T, F, C, N, kt, dt, BP, tiles,
                                            WORKS, num_warps=4)
    return [dw, *dmaps]


@depthwise_bwd_op.register_fake
def _(maps, w, dy, kt, dt):
    return [torch.empty(w.shape, device=w.device), *(torch.empty_like(x) for x in maps)]


def _setup(ctx, inputs, output):
    maps, w, ctx.kt, ctx.dt = inputs
    ctx.save_for_backward(w, *maps)


def _backward(ctx, dy):
    w, *maps = ctx.saved_tensors
    dw, *dmaps = depthwise_bwd_op(maps, w, dy.contiguous(), ctx.kt, ctx.dt)
    return dmaps, dw.to(w.dtype), None, None


depthwise_op.register_autograd(_backward, setup_context=_setup)
