"""`VideoVAE`: causal CNN encoder and ViT decoder."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .common import RMSNorm, attend, rope


class Conv3d(nn.Conv3d):
    """Reflect padding in space, causal zero padding in time."""

    def __init__(self, cin, cout, k, stride=1, pad=(1, 1, 1)):
        super().__init__(cin, cout, k, stride=stride)
        self.pad3 = pad

    def forward(self, x):
        pt, ph, pw = self.pad3
        if ph or pw:
            x = F.pad(x, (pw, pw, ph, ph, 0, 0), mode="reflect")
        if pt:
            x = F.pad(x, (0, 0, 0, 0, 2 * pt, 0))
        return F.conv3d(x, self.weight, self.bias, stride=self.stride)


class FrameGroupNorm(nn.GroupNorm):
    def forward(self, x):
        b, c, t, h, w = x.shape
        y = super().forward(x.transpose(1, 2).reshape(b * t, c, h, w))
        return y.view(b, t, c, h, w).transpose(1, 2)


class ResBlock3D(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm1 = FrameGroupNorm(32, cin, eps=1e-6)
        self.norm2 = FrameGroupNorm(32, cout, eps=1e-6)
        self.conv1 = Conv3d(cin, cout, 3)
        self.conv2 = Conv3d(cout, cout, 3)
        if cin != cout:
            self.nin_shortcut = Conv3d(cin, cout, 1, pad=(0, 0, 0))

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x) + h


class Down3D(nn.Module):
    def __init__(self, c, ts, ss):
        super().__init__()
        self.ss = ss
        self.conv = Conv3d(c, c, 3, stride=(ts, ss, ss), pad=(1, 0, 0))

    def forward(self, x):
        if self.ss == 2:
            x = F.pad(x, (0, 1, 0, 1, 0, 0), mode="reflect")
        return self.conv(x)


class CausalEncoder3D(nn.Module):
    def __init__(self, c):
        super().__init__()
        mid = [c["ch"] * m for m in c["ch_mult"]]
        cin = [mid[0]] + mid[:-1]
        self.conv_in = Conv3d(c["in_channels"], mid[0], 3)
        self.down = nn.ModuleList()
        for i in range(len(mid)):
            d = nn.Module()
            d.block = nn.ModuleList([ResBlock3D(cin[i] if j == 0 else mid[i], mid[i]) for j in range(c["num_res_blocks"])])
            if c["space_down"][i] * c["time_down"][i] > 1:
                d.downsample = Down3D(mid[i], c["time_down"][i], c["space_down"][i])
            self.down.append(d)
        self.norm_out = FrameGroupNorm(32, mid[-1], eps=1e-6)
        self.conv_out = Conv3d(mid[-1], 2 * c["z_channels"], 3)

    def forward(self, x):
        x = self.conv_in(x)
        for d in self.down:
            for b in d.block:
                x = b(x)
            if hasattr(d, "downsample"):
                x = d.downsample(x)
        return self.conv_out(F.silu(self.norm_out(x)))


class VitAttention(nn.Module):
    def __init__(self, heads, dh):
        super().__init__()
        d = heads * dh
        self.heads, self.dh = heads, dh
        self.norm = RMSNorm(dh, 1e-5, affine=False)
        self.to_qkv = nn.Linear(d, 3 * d)
        self.to_out = nn.Linear(d, d)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        q, k, v = self.to_qkv(x).view(b, s, self.heads, 3 * self.dh).transpose(1, 2).chunk(3, -1)
        q, k = rope(self.norm(q), cos, sin), rope(self.norm(k), cos, sin)
        return self.to_out(attend(q, k, v).transpose(1, 2).reshape(b, s, -1))


class VitFF(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1 = nn.Linear(d, 8 * d)
        self.w2 = nn.Linear(4 * d, d)

    def forward(self, x):
        g, u = self.w1(x).chunk(2, -1)
        return self.w2(F.silu(g) * u)


class VitBlock(nn.Module):
    def __init__(self, heads, dh):
        super().__init__()
        d = heads * dh
        self.norm1 = RMSNorm(d)
        self.attn = VitAttention(heads, dh)
        self.scale1 = nn.Parameter(torch.full((d,), 0.2))
        self.norm2 = RMSNorm(d)
        self.ff = VitFF(d)
        self.scale2 = nn.Parameter(torch.full((d,), 0.2))

    def forward(self, x, cos, sin):
        x = x + self.attn(self.norm1(x), cos, sin) * self.scale1
        return x + self.ff(self.norm2(x)) * self.scale2


class VitDecoder(nn.Module):
    def __init__(self, c, ps=16, pt=4):
        super().__init__()
        k = c["vit_decoder_kwargs"]
        self.ps, self.pt = ps, pt
        d = k["heads"] * k["dim_head"]
        self.rope_dim = int(k["dim_head"] * k["rope_dim_ratio"])
        self.theta = k["rope_theta"]
        self.x_embedder = nn.Linear(c["z_channels"], d)
        self.register_tokens = nn.Parameter(torch.randn(1, 4, d) * 0.02)
        self.register_buffer("mask_token", torch.zeros(1, 1, d))
        self.transformer_blocks = nn.ModuleList([VitBlock(k["heads"], k["dim_head"]) for _ in range(k["num_layers"])])
        self.norm_out = nn.LayerNorm(d, eps=1e-5)
        self.proj_out = nn.Linear(d, 3 * pt * ps * ps)

    def angles(self, t, h, w):
        ax = [2 * (torch.arange(n, dtype=torch.float32) + 0.5) / n - 1 for n in (t, h, w)]
        ids = torch.stack(torch.meshgrid(*ax, indexing="ij"), -1).reshape(-1, 3)
        ids = torch.cat([ids, torch.zeros(5, 3)])                     # 4 registers + 1 cls
        inv = 1 / self.theta ** torch.arange(0, 1, 6 / self.rope_dim, dtype=torch.float32)
        a = (2 * math.pi * ids[:, :, None] * inv).flatten(1, 2).tile(2)
        return torch.cos(a), torch.sin(a)

    def forward(self, z):
        b, c, t, h, w = z.shape
        x = self.x_embedder(z.permute(0, 2, 3, 4, 1).reshape(b, t * h * w, c))
        x = torch.cat([x, self.register_tokens.to(x.dtype).expand(b, -1, -1), torch.zeros_like(x[:, :1])], 1)
        cos, sin = self.angles(t, h, w)
        for blk in self.transformer_blocks:
            x = blk(x, cos, sin)
        y = self.proj_out(self.norm_out(x[:, :t * h * w]))
        y = y.view(b, t, h, w, 3, self.pt, self.ps, self.ps).permute(0, 4, 1, 5, 2, 6, 3, 7)
        return y.reshape(b, 3, t * self.pt, h * self.ps, w * self.ps)


IMEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1, 1)
ISTD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1, 1)


class VideoVAE(nn.Module):
    """17-frame clips of 5 tokens; the last 3 tokens of the last clip are dropped (17n+5 frames)."""

    def __init__(self, c):
        super().__init__()
        self.cfg = c
        self.encoder = CausalEncoder3D(c)
        self.quant_conv = nn.Conv3d(2 * c["z_channels"], 2 * c["embed_dim"], 1)
        self.post_quant_conv = nn.Conv3d(c["embed_dim"], c["z_channels"], 1)
        self.decoder = VitDecoder(c)

    def encode_raw(self, x01):
        """One clip (or an image, T=1), pixels in 0..1 -> mean latents."""
        return self.quant_conv(self.encoder((x01 - IMEAN) / ISTD)).chunk(2, 1)[0]

    def encode(self, x01):
        t = x01.shape[2]
        x01 = torch.cat([x01, x01[:, :, -1:].repeat(1, 1, (-t) % 17, 1, 1)], 2)
        return torch.cat([self.encode_raw(x01[:, :, i:i + 17]) for i in range(0, x01.shape[2], 17)], 2)[:, :, :-3]

    def decode_raw(self, z):
        """7 tokens -> 28 frames, imagenet-normalised."""
        return self.decoder(self.post_quant_conv(z))

    def decode(self, z):
        """Tokens 5n+2 -> 17n+5 frames in 0..1 with the 5-frame cross-fade between clips."""
        n = (z.shape[2] - 2) // 5
        out, over = [], None
        for i in range(n):
            y = self.decode_raw(z[:, :, 5 * i:5 * i + 7])
            cur, nxt = y[:, :, 3:20], y[:, :, 23:28]
            if over is not None:
                w = (torch.arange(5) / 5).view(1, 1, 5, 1, 1)
                cur = torch.cat([over * (1 - w) + cur[:, :, :5] * w, cur[:, :, 5:]], 2)
            out.append(cur)
            over = nxt
        return (torch.cat(out + [over], 2) * ISTD + IMEAN).clamp(0, 1)
