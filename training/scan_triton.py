"""The selective scan of scan.py as Triton kernels.

One program walks one block of channels of one sequence through time, in one warp: thousands of them (batch x frequency)
fill a GPU without a parallel scan, and inside a warp no sum needs a barrier. The next step's inputs are loaded before the
present step is computed. The states, in bfloat16, are kept for the backward pass, which reads each once.
"""
import torch
import triton
import triton.language as tl


@triton.jit
def _fwd(u, dt, A, B, C, Dv, y, hs, T, D: tl.constexpr, S: tl.constexpr, BD: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    s = tl.arange(0, S)
    ds = d[:, None] * S + s[None, :]
    a = tl.load(A + ds) * 1.4426950408889634                      # exp(x) = exp2(x log2 e)
    dv = tl.load(Dv + d)
    h = tl.zeros((BD, S), dtype=tl.float32)
    o = n * T
    un, dtn = tl.load(u + o * D + d), tl.load(dt + o * D + d)
    bn, cn = tl.load(B + o * S + s), tl.load(C + o * S + s)
    for t in range(T):
        ut, dtt, b, c = un.to(tl.float32), dtn.to(tl.float32), bn.to(tl.float32), cn.to(tl.float32)
        p = n * T + tl.minimum(t + 1, T - 1)
        un, dtn = tl.load(u + p * D + d), tl.load(dt + p * D + d)
        bn, cn = tl.load(B + p * S + s), tl.load(C + p * S + s)
        h = tl.exp2(dtt[:, None] * a) * h + (dtt * ut)[:, None] * b[None, :]
        tl.store(hs + o * (D * S) + ds, h.to(tl.bfloat16))
        tl.store(y + o * D + d, (tl.sum(h * c[None, :], 1) + dv * ut).to(y.dtype.element_ty))
        o += 1


@triton.jit
def _bwd(u, dt, A, B, C, Dv, hs, dy, du, ddt, dA, dB, dC, dD, T, D: tl.constexpr, S: tl.constexpr, BD: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    d = block * BD + tl.arange(0, BD)
    s = tl.arange(0, S)
    ds = d[:, None] * S + s[None, :]
    a = tl.load(A + ds)
    dv = tl.load(Dv + d)
    dh = tl.zeros((BD, S), dtype=tl.float32)
    da_acc = tl.zeros((BD, S), dtype=tl.float32)
    dd_acc = tl.zeros((BD,), dtype=tl.float32)
    o = n * T + T - 1
    h = tl.load(hs + o * (D * S) + ds).to(tl.float32)
    un, dtn, gn = tl.load(u + o * D + d), tl.load(dt + o * D + d), tl.load(dy + o * D + d)
    bn, cn = tl.load(B + o * S + s), tl.load(C + o * S + s)
    hn = tl.load(hs + (n * T + tl.maximum(T - 2, 0)) * (D * S) + ds)
    for k in range(T):
        t = T - 1 - k
        ut, dtt, g, b, c = un.to(tl.float32), dtn.to(tl.float32), gn.to(tl.float32), bn.to(tl.float32), cn.to(tl.float32)
        hp = tl.where(t > 0, hn.to(tl.float32), 0.0)
        p = n * T + tl.maximum(t - 1, 0)
        un, dtn, gn = tl.load(u + p * D + d), tl.load(dt + p * D + d), tl.load(dy + p * D + d)
        bn, cn = tl.load(B + p * S + s), tl.load(C + p * S + s)
        hn = tl.load(hs + (n * T + tl.maximum(t - 2, 0)) * (D * S) + ds)
        dh += g[:, None] * c[None, :]
        tl.store(dC + (block * tl.num_programs(0) * T + o) * S + s, tl.sum(h * g[:, None], 0))
        e = tl.exp2(dtt[:, None] * (a * 1.4426950408889634))
        dhe = dh * e
        dha = dhe * hp
        dhb = tl.sum(dh * b[None, :], 1)
        da_acc += dha * dtt[:, None]
        tl.store(ddt + o * D + d, (tl.sum(dha * a, 1) + dhb * ut).to(ddt.dtype.element_ty))
        tl.store(dB + (block * tl.num_programs(0) * T + o) * S + s, tl.sum(dh * (dtt * ut)[:, None], 0))
        tl.store(du + o * D + d, (dhb * dtt + dv * g).to(du.dtype.element_ty))
        dd_acc += g * ut
        dh = dhe
        h = hp
        o -= 1
    tl.atomic_add(dA + ds, da_acc)
    tl.atomic_add(dD + d, dd_acc)


def _block(D):
    return min(D, 32)


@torch.library.custom_op("primeknet::scan", mutates_args=())
def scan_op(u: torch.Tensor, dt: torch.Tensor, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor, Dv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    N, T, D = u.shape
    y = torch.empty_like(u)
    hs = torch.empty(N, T, D, A.shape[1], dtype=torch.bfloat16, device=u.device)
    BD = _block(D)
    _fwd[(N, D // BD)](u, dt, A, B, C, Dv, y, hs, T, D, A.shape[1], BD, num_warps=1)
    return y, hs


@scan_op.register_fake
def _(u, dt, A, B, C, Dv):
    N, T, D = u.shape
    return torch.empty_like(u), torch.empty(N, T, D, A.shape[1], dtype=torch.bfloat16, device=u.device)


@torch.library.custom_op("primeknet::scan_bwd", mutates_args=())
def scan_bwd_op(u: torch.Tensor, dt: torch.Tensor, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor, Dv: torch.Tensor, hs: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    N, T, D = u.shape
    S = A.shape[1]
    BD = _block(D)
    du, ddt = torch.empty_like(u), torch.empty_like(dt)
    dA, dD = torch.zeros(D, S, device=u.device), torch.zeros(D, device=u.device)
    dB, dC = torch.empty(D // BD, N, T, S, device=u.device), torch.empty(D // BD, N, T, S, device=u.device)
    _bwd[(N, D // BD)](u, dt, A, B, C, Dv, hs, dy.contiguous(), du, ddt, dA, dB, dC, dD, T, D, S, BD, num_warps=1)
    return du, ddt, dA, dB.sum(0), dC.sum(0), dD


@scan_bwd_op.register_fake
def _(u, dt, A, B, C, Dv, hs, dy):
    f = dict(device=u.device, dtype=torch.float32)
    return (torch.empty_like(u), torch.empty_like(dt), torch.empty(A.shape, **f), torch.empty(B.shape, **f),
            torch.empty(C.shape, **f), torch.empty(Dv.shape, **f))


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx, dy, _):
    u, dt, A, B, C, Dv, hs = ctx.saved_tensors
    du, ddt, dA, dB, dC, dD = scan_bwd_op(u, dt, A, B, C, Dv, hs, dy)
    return du, ddt, dA, dB.to(B.dtype), dC.to(C.dtype), dD


scan_op.register_autograd(_backward, setup_context=_setup)
