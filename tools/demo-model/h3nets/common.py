"""Parts that several networks share: norms, rotary embedding, attention."""
import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5, affine=True):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if affine else None

    def forward(self, x):
        dt = x.dtype
        x = x.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.weight is not None:
            x = x * self.weight
        return x.to(dt)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rope(x, cos, sin):
    n = cos.shape[-1]
    r, p = x[..., :n], x[..., n:]
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    r = r * cos + rotate_half(r) * sin
    return torch.cat((r, p), -1) if p.shape[-1] else r


def attend(q, k, v, bias=None, scale=None):
    """Plain softmax attention on [B, heads, L, dh]; faster than the fused CPU kernel here."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = torch.matmul(q * scale, k.transpose(-1, -2))
    if bias is not None:
        s = s + bias.to(s.dtype)
    return torch.matmul(s.softmax(-1), v)
