"""The depthwise convolution of depthwise.py as Triton kernels.

A position is one (batch, time, frequency); positions are numbered through, so that a tap is a constant distance and only the
borders of frequency and time need a mask. M (1 or 2) output channels share the reading of each input channel.
"""
import torch
import triton
import triton.language as tl


@triton.jit
def _fwd(x, w, y, P, T: tl.constexpr, F: tl.constexpr, C: tl.constexpr, M: tl.constexpr, KT: tl.constexpr, KF: tl.constexpr, DT: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, C)[None, :]
    f = p % F
    t = (p // F) % T
    a0 = tl.zeros((BP, C), dtype=tl.float32)
    a1 = tl.zeros((BP, C), dtype=tl.float32)
    for kt in tl.static_range(KT):
        back = (KT - 1 - kt) * DT
        for kf in tl.static_range(KF):
            o = kf - KF // 2
            ok = (p < P) & (t >= back) & (f + o >= 0) & (f + o < F)
            v = tl.load(x + (p + o - back * F)[:, None] * C + c, mask=ok[:, None], other=0.0).to(tl.float32)
            a0 += v * tl.load(w + (kt * KF + kf) * M * C + c)
            if M == 2:
                a1 += v * tl.load(w + (kt * KF + kf) * M * C + C + c)
    tl.store(y + p[:, None] * (M * C) + c, a0.to(y.dtype.element_ty), mask=(p < P)[:, None])
    if M == 2:
        tl.store(y + p[:, None] * (M * C) + C + c, a1.to(y.dtype.element_ty), mask=(p < P)[:, None])


@triton.jit
def _dgrad(dy, w, dx, P, T: tl.constexpr, F: tl.constexpr, C: tl.constexpr, M: tl.constexpr, KT: tl.constexpr, KF: tl.constexpr, DT: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, C)[None, :]
    f = p % F
    t = (p // F) % T
    acc = tl.zeros((BP, C), dtype=tl.float32)
    for kt in tl.static_range(KT):
        ahead = (KT - 1 - kt) * DT
        for kf in tl.static_range(KF):
            o = kf - KF // 2
            ok = (p < P) & (t + ahead < T) & (f - o >= 0) & (f - o < F)
            for m in tl.static_range(M):
                g = tl.load(dy + (p - o + ahead * F)[:, None] * (M * C) + m * C + c, mask=ok[:, None], other=0.0).to(tl.float32)
                acc += g * tl.load(w + ((kt * KF + kf) * M + m) * C + c)
    tl.store(dx + p[:, None] * C + c, acc.to(dx.dtype.element_ty), mask=(p < P)[:, None])


@triton.jit
def _wgrad(x, dy, dw, P, T: tl.constexpr, F: tl.constexpr, C: tl.constexpr, M: tl.constexpr, KT: tl.constexpr, KF: tl.constexpr, DT: tl.constexpr, TAPS: tl.constexpr, RUN: tl.constexpr):
    """All taps of RUN positions, one position after the other: the sums stay in registers, x in the first cache."""
    k = tl.arange(0, TAPS)
    c = tl.arange(0, C)[None, :]
    back = (KT - 1 - k // KF) * DT
    o = k % KF - KF // 2
    a0 = tl.zeros((TAPS, C), dtype=tl.float32)
    a1 = tl.zeros((TAPS, C), dtype=tl.float32)
    for i in range(0, RUN, 4):
        for j in tl.static_range(4):
            p = tl.program_id(0) * RUN + i + j
            f = p % F
            t = (p // F) % T
            ok = (p < P) & (k < KT * KF) & (t >= back) & (f + o >= 0) & (f + o < F)
            v = tl.load(x + (p + o - back * F)[:, None] * C + c, mask=ok[:, None], other=0.0).to(tl.float32)
            q = tl.minimum(p, P - 1)
            a0 += v * tl.load(dy + q * (M * C) + c).to(tl.float32)
            if M == 2:
                a1 += v * tl.load(dy + q * (M * C) + C + c).to(tl.float32)
    ok = (k < KT * KF)[:, None]
    tl.atomic_add(dw + k[:, None] * (M * C) + c, a0, mask=ok & (c >= 0))
    if M == 2:
        tl.atomic_add(dw + k[:, None] * (M * C) + C + c, a1, mask=ok & (c >= 0))


def _tile(C):
    return max(16, 2048 // C)


@torch.library.custom_op("primeknet::depthwise", mutates_args=())
def depthwise_op(x: torch.Tensor, w: torch.Tensor, kt: int, kf: int, dt: int) -> torch.Tensor:
    B, T, F, C = x.shape
    y = torch.empty(B, T, F, w.shape[1], dtype=x.dtype, device=x.device)
    BP = _tile(C)
    _fwd[(triton.cdiv(B * T * F, BP),)](x, w, y, B * T * F, T, F, C, w.shape[1] // C, kt, kf, dt, BP, num_warps=4)
    return y


@depthwise_op.register_fake
def _(x, w, kt, kf, dt):
    return x.new_empty(*x.shape[:3], w.shape[1])


@torch.library.custom_op("primeknet::depthwise_bwd", mutates_args=())
def depthwise_bwd_op(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor, kt: int, kf: int, dt: int) -> tuple[torch.Tensor, torch.Tensor]:
    B, T, F, C = x.shape
    P, M, BP = B * T * F, w.shape[1] // C, _tile(C)
    dx = torch.empty_like(x)
    _dgrad[(triton.cdiv(P, BP),)](dy, w, dx, P, T, F, C, M, kt, kf, dt, BP, num_warps=4)
    dw = torch.zeros(kt * kf, M * C, device=x.device)
    taps = triton.next_power_of_2(kt * kf)
    run = triton.cdiv(P, 132 * 64 * 4) * 4                # a program is one warp, and a GPU's multiprocessor holds 64
    _wgrad[(triton.cdiv(P, run),)](x, dy, dw, P, T, F, C, M, kt, kf, dt, taps, run, num_warps=1)
    return dx, dw


@depthwise_bwd_op.register_fake
def _(x, w, dy, kt, kf, dt):
    return torch.empty_like(x), torch.empty(w.shape, device=x.device, dtype=torch.float32)


def _setup(ctx, inputs, output):
    x, w, ctx.kt, ctx.kf, ctx.dt = inputs
    ctx.save_for_backward(x, w)


def _backward(ctx, dy):
    x, w = ctx.saved_tensors
    dx, dw = depthwise_bwd_op(x, w, dy.contiguous(), ctx.kt, ctx.kf, ctx.dt)
    return dx, dw.to(w.dtype), None, None, None


depthwise_op.register_autograd(_backward, setup_context=_setup)
