"""`AudioVAE`: DAC encoder and BigVGAN decoder."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .common import attend


class WNConv1d(nn.Module):
    def __init__(self, cin, cout, k, stride=1, padding=0, dilation=1, bias=True):
        super().__init__()
        w = nn.Conv1d(cin, cout, k).weight.data
        self.weight_g = nn.Parameter(w.norm(dim=(1, 2), keepdim=True))
        self.weight_v = nn.Parameter(w)
        self.bias = nn.Parameter(torch.zeros(cout)) if bias else None
        self.a = dict(stride=stride, padding=padding, dilation=dilation)

    def weight(self):
        return self.weight_g * self.weight_v / self.weight_v.norm(dim=(1, 2), keepdim=True)

    def forward(self, x):
        return F.conv1d(x, self.weight(), self.bias, **self.a)


class WNConvT1d(nn.Module):
    def __init__(self, cin, cout, k, stride, padding):
        super().__init__()
        w = nn.ConvTranspose1d(cin, cout, k).weight.data * math.sqrt(stride)
        self.weight_g = nn.Parameter(w.norm(dim=(1, 2), keepdim=True))
        self.weight_v = nn.Parameter(w)
        self.bias = nn.Parameter(torch.zeros(cout))
        self.a = dict(stride=stride, padding=padding)

    def forward(self, x):
        w = self.weight_g * self.weight_v / self.weight_v.norm(dim=(1, 2), keepdim=True)
        return F.conv_transpose1d(x, w, self.bias, **self.a)


class Snake(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, c, 1))

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


class SnakeBeta(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(c))
        self.beta = nn.Parameter(torch.zeros(c))

    def forward(self, x):
        a, b = self.alpha.exp().view(1, -1, 1), self.beta.exp().view(1, -1, 1)
        return x + (b + 1e-9).reciprocal() * torch.sin(a * x).pow(2)


def kaiser_sinc(cutoff, half_width, k):
    half = k // 2
    A = 2.285 * (half - 1) * math.pi * 4 * half_width + 7.95
    beta = 0.1102 * (A - 8.7) if A > 50 else (0.5842 * (A - 21) ** 0.4 + 0.07886 * (A - 21) if A >= 21 else 0.0)
    win = torch.kaiser_window(k, beta=beta, periodic=False)
    t = torch.arange(-half, half) + 0.5
    f = 2 * cutoff * win * torch.sinc(2 * cutoff * t)
    return (f / f.sum()).view(1, 1, k)


class _Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("filter", kaiser_sinc(0.25, 0.3, 12))


_B = 16


def _fir_matrices():
    """Banded matrices of the x2 up and down filters on blocks of 16 low-rate samples."""
    f = kaiser_sinc(0.25, 0.3, 12).view(-1)
    up, down = torch.zeros(_B + 6, 2 * _B), torch.zeros(2 * _B + 10, _B)
    for n in range(2 * _B):                  # y[n] = 2 sum_m x[m] f[n + 5 - 2m]
        for m in range(-3, _B + 3):
            if 0 <= n + 5 - 2 * m < 12:
                up[m + 3, n] = 2 * f[n + 5 - 2 * m]
    for p in range(_B):                      # y[p] = sum_k f[k] x[2p + k - 5]
        for k in range(12):
            down[2 * p + k, p] = f[k]
    return up, down


MUP, MDOWN = _fir_matrices()


def _up(x, mode):
    n, t = x.shape
    b = -(-t // _B)
    xp = F.pad(x[:, None], (3, 3), mode=mode)[:, 0] if mode == "replicate" else F.pad(x, (3, 3))
    xp = F.pad(xp, (0, b * _B - t))
    return (xp.as_strided((n, b, _B + 6), (xp.stride(0), _B, 1)) @ MUP).reshape(n, b * 2 * _B)[:, :2 * t]


def _down(x, mode):
    n, t = x.shape[0], x.shape[1] // 2
    b = -(-t // _B)
    xp = F.pad(x[:, None], (5, 6), mode=mode)[:, 0] if mode == "replicate" else F.pad(x, (5, 6))
    xp = F.pad(xp, (0, (b * _B - t) * 2))
    return (xp.as_strided((n, b, 2 * _B + 10), (xp.stride(0), 2 * _B, 1)) @ MDOWN).reshape(n, b * _B)[:, :t]


class FirUp(torch.autograd.Function):
    """x2 up-sampling as a block GEMM; the backward ignores the replicated edges."""

    @staticmethod
    def forward(ctx, x):
        return _up(x, "replicate")

    @staticmethod
    def backward(ctx, g):
        return 2 * _down(g.contiguous(), "zeros")


class FirDown(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _down(x, "replicate")

    @staticmethod
    def backward(ctx, g):
        return 0.5 * _up(g.contiguous(), "zeros")


class AliasFreeAct(nn.Module):
    """x2 up-sampling, snake, x2 down-sampling with 12-tap kaiser-sinc filters."""

    def __init__(self, c):
        super().__init__()
        self.act = SnakeBeta(c)
        self.upsample = _Filter()
        self.downsample = nn.Module()
        self.downsample.lowpass = _Filter()

    def forward(self, x):
        b, c, t = x.shape
        x = FirUp.apply(x.reshape(b * c, t))
        x = self.act(x.reshape(b, c, 2 * t)).reshape(b * c, 2 * t)
        return FirDown.apply(x).reshape(b, c, t)

    def forward_conv(self, x):
        """The same, written as in the reference (used by the parity check)."""
        b, c, t = x.shape
        x = F.pad(x.reshape(b * c, 1, t), (5, 5), mode="replicate")
        x = 2 * F.conv_transpose1d(x, self.upsample.filter, stride=2)[..., 15:-15]
        x = self.act(x.view(b, c, 2 * t)).reshape(b * c, 1, 2 * t)
        return F.conv1d(F.pad(x, (5, 6), mode="replicate"), self.downsample.lowpass.filter, stride=2).view(b, c, t)


class AMPBlock(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.convs1 = nn.ModuleList([WNConv1d(c, c, k, padding=(k - 1) * d // 2, dilation=d) for d in (1, 3, 5)])
        self.convs2 = nn.ModuleList([WNConv1d(c, c, k, padding=(k - 1) // 2) for _ in range(3)])
        self.activations = nn.ModuleList([AliasFreeAct(c) for _ in range(6)])

    def forward(self, x):
        for i in range(3):
            y = self.convs1[i](self.activations[2 * i](x))
            x = x + self.convs2[i](self.activations[2 * i + 1](y))
        return x


class BigVGAN(nn.Module):
    def __init__(self, cin, d, rates):
        super().__init__()
        self.conv_pre = WNConv1d(cin, d, 7, padding=3)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for i, u in enumerate(rates):
            k = 9 if u == 5 else 4
            self.ups.append(nn.ModuleList([WNConvT1d(d // 2 ** i, d // 2 ** (i + 1), k, u, (k - u) // 2)]))
            for rk in (3, 7, 11):
                self.resblocks.append(AMPBlock(d // 2 ** (i + 1), rk))
        c = d // 2 ** len(rates)
        self.activation_post = AliasFreeAct(c)
        self.conv_post = WNConv1d(c, 1, 7, padding=3, bias=False)

    def init_linear(self):
        """Residual branches start near zero and the last snake near the identity: the chain of
        transposed convolutions alone can then learn the waveforms (fast first stage)."""
        for r in self.resblocks:
            for c in r.convs2:
                c.weight_g.data.mul_(0.05)
        self.activation_post.act.alpha.data.fill_(-3.0)

    def forward(self, x, clamp=True, bypass=False):
        x = self.conv_pre(x)
        for i, up in enumerate(self.ups):
            x = up[0](x)
            if not bypass:
                x = sum(self.resblocks[3 * i + j](x) for j in range(3)) / 3
        x = self.conv_post(self.activation_post(x))
        return x.clamp(-1, 1) if clamp else x


class ResUnit1d(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.block = nn.Sequential(Snake(c), WNConv1d(c, c, 7, padding=3 * d, dilation=d), Snake(c), WNConv1d(c, c, 1))

    def forward(self, x):
        return x + self.block(x)


class DownBlock1d(nn.Module):
    def __init__(self, c, s):
        super().__init__()
        h = c // 2
        self.block = nn.Sequential(ResUnit1d(h, 1), ResUnit1d(h, 3), ResUnit1d(h, 9), Snake(h),
                                   WNConv1d(h, c, 2 * s, stride=s, padding=math.ceil(s / 2)))

    def forward(self, x):
        return self.block(x)


class DacEncoder(nn.Module):
    def __init__(self, d, rates, latent):
        super().__init__()
        blocks = [WNConv1d(1, d, 7, padding=3)]
        for s in rates:
            d *= 2
            blocks.append(DownBlock1d(d, s))
        self.block = nn.Sequential(*blocks, Snake(d), WNConv1d(d, latent, 3, padding=1))

    def forward(self, x):
        return self.block(x)


class GeGlu(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.w0, self.w1, self.w2 = nn.Linear(d, h), nn.Linear(d, h), nn.Linear(h, d)

    def forward(self, x):
        x = self.norm(x)
        return self.w2(F.gelu(self.w0(x), approximate="tanh") * self.w1(x))


class CausalPoolAttention(nn.Module):
    def __init__(self, din, dout, heads):
        super().__init__()
        self.qkv = nn.Linear(din, 3 * din, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(din))
        self.v_bias = nn.Parameter(torch.zeros(din))
        self.register_buffer("zero_k_bias", torch.zeros(din))
        self.proj = nn.Linear(dout, dout)
        self.heads, self.dout = heads, dout

    def forward(self, x):
        b, n, c = x.shape
        qkv = F.linear(x, self.qkv.weight, torch.cat([self.q_bias, self.zero_k_bias, self.v_bias]))
        q, k, v = qkv.view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = torch.full((n, n), float("-inf")).triu(1)
        y = attend(q, k, v, bias).mean(1)
        return self.proj(F.adaptive_avg_pool1d(y, self.dout))


class AttnProjection(nn.Module):
    def __init__(self, din, dout, heads=8):
        super().__init__()
        self.norm1 = nn.LayerNorm(din)
        self.attn = CausalPoolAttention(din, dout, heads)
        self.proj = nn.Linear(din, dout)
        self.norm3 = nn.LayerNorm(din)
        self.norm2 = nn.LayerNorm(dout)
        self.mlp = GeGlu(dout, 2 * dout)

    def forward(self, x):
        x = self.proj(self.norm3(x)) + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class AudioVAE(nn.Module):
    """Mono; both stereo channels go through it as a batch of two."""

    def __init__(self, k):
        super().__init__()
        z, lat = k["vae_latent_channels"], k["latent_dim"]
        self.encoder = DacEncoder(k["encoder_dim"], k["encoder_rates"], lat)
        self.pre_block = AttnProjection(lat, z)
        self.mean_proj = nn.Conv1d(z, z, 1)
        self.logs_proj = nn.Conv1d(z, z, 1)
        self.dec_in_proj = nn.Conv1d(z, lat, 1)
        self.decoder = BigVGAN(lat, k["decoder_dim"], k["decoder_rates"])

    def encode(self, w):
        """[N,1,L] -> [N,32,L/800] (mean)."""
        w = F.pad(w, (0, (-w.shape[-1]) % 800))
        return self.mean_proj(self.pre_block(self.encoder(w).transpose(1, 2)).transpose(1, 2))

    def decode(self, z, clamp=True, bypass=False):
        return self.decoder(self.dec_in_proj(z), clamp, bypass)
