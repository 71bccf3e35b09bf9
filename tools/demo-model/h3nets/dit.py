"""`DiT`, its token layout and positions."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from .common import RMSNorm, attend, rope


def modulate(x, shift, scale):
    return x * (1 + scale) + shift


class DiTAttention(nn.Module):
    def __init__(self, d, heads, dh, eps):
        super().__init__()
        self.heads, self.dh = heads, dh
        self.qkv_proj = nn.Linear(d, 3 * heads * dh, bias=False)
        self.q_norm, self.k_norm = RMSNorm(dh, eps), RMSNorm(dh, eps)
        self.out_proj = nn.Linear(heads * dh, d, bias=False)

    def forward(self, x, cs, bias):
        b, n, _ = x.shape
        qkv = self.qkv_proj(x).view(b, n, self.heads, 3, self.dh).permute(3, 0, 2, 1, 4)
        qk, v = qkv[:2].float(), qkv[2]
        wt = torch.stack([self.q_norm.weight, self.k_norm.weight]).view(2, 1, 1, 1, self.dh)
        qk = (qk * torch.rsqrt(qk.pow(2).mean(-1, keepdim=True) + self.q_norm.eps) * wt).to(v.dtype)
        if cs is not None:
            qk = rope(qk, *cs)
        q, k = qk[0], qk[1]
        return self.out_proj(attend(q, k, v, bias).transpose(1, 2).reshape(b, n, -1))


class DiTMLP(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.fc1 = nn.Linear(d, 2 * h, bias=False)
        self.fc2 = nn.Linear(h, d, bias=False)

    def forward(self, x):
        g, u = self.fc1(x).chunk(2, -1)
        return self.fc2(F.silu(g) * u)


class AdaLN(nn.Module):
    def __init__(self, td, n):
        super().__init__()
        self.linear = nn.Linear(td, n)


class DiTBlock(nn.Module):
    def __init__(self, c, adaln=True):
        super().__init__()
        d = c["hidden_size"]
        self.norm1, self.norm2 = RMSNorm(d, c["norm_eps"]), RMSNorm(d, c["norm_eps"])
        self.attn = DiTAttention(d, c["num_attention_heads"], c["attention_head_dim"], c["qk_norm_eps"])
        self.mlp = DiTMLP(d, c["ffn_hidden_size"])
        if adaln:
            self.adaln_proj = AdaLN(c["time_embed_dim"], c["adaln_out_features"])

    def forward(self, x, cs=None, bias=None, rows=None):
        if rows is None:                                   # token refiner block
            x = x + self.attn(self.norm1(x), None, bias)
            return x + self.mlp(self.norm2(x))
        s1, c1, g1, s2, c2, g2 = rows(self.adaln_proj.linear, 6)
        x = x + g1 * self.attn(modulate(self.norm1(x), s1, c1), cs, bias)
        return x + g2 * self.mlp(modulate(self.norm2(x), s2, c2))


class DiT(nn.Module):
    """Batched form of the packed-sequence transformer: every sample has the same segment lengths
    [text (padded) | condition frames | audio L, audio R | video]; padding is masked out."""

    def __init__(self, c):
        super().__init__()
        self.cfg = c
        d = c["hidden_size"]
        self.video_patch_proj = nn.Linear(c["latents_dim"] * 4, d)
        self.audio_patch_proj = nn.Linear(c["audio_latents_dim"], d)
        self.condition_proj = nn.Linear(c["text_dim"], d)
        self.time_embedder = nn.Module()
        self.time_embedder.proj_in = nn.Linear(c["timestep_input_dim"], c["time_embed_hidden_size"])
        self.time_embedder.proj_out = nn.Linear(c["time_embed_hidden_size"], c["time_embed_dim"])
        self.rope = nn.Module()
        n = c["rope_inv_freq_len"]
        self.rope.inv_freq = nn.Parameter(1.0 / (10000.0 ** (torch.arange(n, dtype=torch.float32) / n)), requires_grad=False)
        self.token_refiner = nn.Module()
        self.token_refiner.blocks = nn.ModuleList([DiTBlock(c, adaln=False) for _ in range(c["token_refiner_num_layers"])])
        self.token_refiner.final_norm = RMSNorm(d, c["final_norm_eps"])
        self.blocks = nn.ModuleList([DiTBlock(c) for _ in range(c["num_layers"])])
        self.final_layer = nn.Module()
        self.final_layer.norm = RMSNorm(d, c["final_norm_eps"])
        self.final_layer.adaln_proj = AdaLN(c["time_embed_dim"], c["final_adaln_out_features"])
        self.final_layer.video_out = nn.Linear(d, c["latents_dim"] * 4)
        self.final_layer.audio_out = nn.Linear(d, c["audio_latents_dim"])

    def init(self):
        for b in self.blocks:
            nn.init.normal_(b.adaln_proj.linear.weight, std=0.02)
            nn.init.zeros_(b.adaln_proj.linear.bias)
            with torch.no_grad():                          # gates start at 0.3, not at 0
                v = b.adaln_proj.linear.bias.view(3, 6, -1)
                v[:, 2] = 0.3
                v[:, 5] = 0.3
        nn.init.zeros_(self.final_layer.adaln_proj.linear.bias)
        for m in (self.final_layer.video_out, self.final_layer.audio_out):
            nn.init.normal_(m.weight, std=0.01)
            nn.init.zeros_(m.bias)
        return self

    def text_head_init(self, seed=0, shift=6.0, gain=1.1):
        """Make head 0 of every block start as a cross-attention head (video and audio rows look at the
        text rows), through the modality shifts of AdaLN. The routing of the text is otherwise slow to
        emerge from uniform attention over the whole packed sequence."""
        g = torch.Generator().manual_seed(seed)
        d, dh = self.cfg["hidden_size"], self.cfg["attention_head_dim"]
        with torch.no_grad():
            for b in self.blocks:
                e, _ = torch.linalg.qr(torch.randn(d, 2, generator=g))
                u = torch.randn(dh, generator=g)
                u = u / u.norm()
                w = b.attn.qkv_proj.weight
                w[:dh] += gain * u[:, None] * e[:, 1][None]          # q of head 0
                w[dh:2 * dh] += gain * u[:, None] * e[:, 0][None]    # k of head 0
                v = b.adaln_proj.linear.bias.view(3, 6, d)
                v[1, 0] += shift * e[:, 0]
                v[0, 0] += shift * e[:, 1]
                v[2, 0] += shift * e[:, 1]

    def t_emb(self, t):
        half = self.cfg["timestep_input_dim"] // 2
        f = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32) / half)
        a = t.float()[..., None] * f
        e = torch.cat([torch.cos(a), torch.sin(a)], -1)
        return self.time_embedder.proj_out(F.silu(self.time_embedder.proj_in(e)))

    def refine(self, text, text_mask):
        bias = torch.zeros(text.shape[0], 1, 1, text.shape[1]).masked_fill(~text_mask[:, None, None], -1e4)
        te = self.condition_proj(text)
        for blk in self.token_refiner.blocks:
            te = blk(te, bias=bias)
        return self.token_refiner.final_norm(te)

    def forward(self, text, text_mask, segs, cond, audio, video, t_video, t_audio, pos, tap=None):
        """text [B,Lt,text_dim], text_mask bool [B,Lt] (True = real), segs: list of (length, tag) of
        the text segment, cond [B,Nc,96] or None, audio [B,2T,32], video [B,Nv,96],
        t_* [B], pos [B,L,3]. Returns the video and audio velocities (towards the data)."""
        c = self.cfg
        d = c["hidden_size"]
        B, Lt, _ = text.shape
        kbias = torch.zeros(B, 1, 1, Lt).masked_fill(~text_mask[:, None, None], -1e4)
        te = self.refine(text, text_mask)
        if tap is not None:
            tap.append(te)
        parts = [te]
        Nc = 0
        if cond is not None:
            Nc = cond.shape[1]
            parts.append(self.video_patch_proj(cond))
        parts += [self.audio_patch_proj(audio), self.video_patch_proj(video)]
        x = torch.cat([p.to(te.dtype) for p in parts], 1)
        Na, Nv = audio.shape[1], video.shape[1]
        bias = F.pad(kbias, (0, Nc + Na + Nv))
        # rows: (length, time index, tag); times: 0 video, 1 audio, 2 condition
        rows_spec = [(n, 0, tag) for n, tag in segs] + ([(Nc, 2, 0)] if Nc else []) + [(Na, 1, 2), (Nv, 0, 0)]
        ts = torch.stack([t_video, t_audio, t_video.clamp(min=0.999)], 1)
        emb = F.silu(self.t_emb(ts))                        # [B,3,td]

        def rows(linear, k):
            o = linear(emb)
            o = o.view(B, 3, 3, k, d)
            m = torch.cat([o[:, ti, tag].unsqueeze(2).expand(-1, -1, n, -1) for n, ti, tag in rows_spec], 2)
            return m.unbind(1)

        def rows_final(linear):
            o = linear(emb).view(B, 3, 2, d)
            m = torch.cat([o[:, ti].unsqueeze(2).expand(-1, -1, n, -1) for n, ti, _ in rows_spec], 2)
            return m.unbind(1)

        inv = self.rope.inv_freq
        f = (pos.float()[..., None] * inv).flatten(2)       # t,h,w blocks
        f = torch.cat([f, f], -1)[:, None]
        cs = (torch.cos(f), torch.sin(f))
        if torch.is_autocast_enabled("cpu"):
            cs = (cs[0].bfloat16(), cs[1].bfloat16())
        for i, blk in enumerate(self.blocks):
            x = blk(x, cs, bias, rows)
            if tap is not None and i == 1:                  # training only: hidden states for the auxiliary heads
                tap.append(x[:, Lt + Nc:])
        sh, sc = rows_final(self.final_layer.adaln_proj.linear)
        x = modulate(self.final_layer.norm(x), sh, sc)
        return self.final_layer.video_out(x[:, -Nv:]), self.final_layer.audio_out(x[:, -Nv - Na:-Nv])


def patchify(z):
    """[B,24,T,H,W] -> [B, T*H/2*W/2, 96] (channel-major inside a patch)."""
    b, c, t, h, w = z.shape
    return z.view(b, c, t, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 1, 4, 6).reshape(b, t * (h // 2) * (w // 2), c * 4)


def unpatchify(r, t, h, w):
    b = r.shape[0]
    return r.view(b, t, h // 2, w // 2, 24, 2, 2).permute(0, 4, 1, 2, 5, 3, 6).reshape(b, 24, t, h, w)


FRAMES_PER_TOKEN = (1, 4, 4, 4, 4)


def positions(text_len, lt_pad, T, h, w, Ta, cond=()):
    """Packed MM-RoPE positions [L,3] (float64); cond: 0 and/or -1 keyframe indices."""
    side = math.sqrt(h * w)

    def axis(n):
        r = n / side
        left = (1 - r) / 2
        return np.linspace(left, left + r, n // 2, endpoint=False) * 32

    gh, gw = axis(h), axis(w)
    frame = np.stack(np.meshgrid(gh, gw, indexing="ij"), -1).reshape(-1, 2)
    span = np.array([5 / 3 * FRAMES_PER_TOKEN[k % 5] for k in range(T)])
    tg = text_len + np.concatenate([[0], span[:-1].cumsum()])
    out = [np.stack([np.arange(lt_pad), np.zeros(lt_pad), np.zeros(lt_pad)], 1)]
    for k in cond:
        ct = text_len if k == 0 else text_len + span.sum() - 5 / 3
        out.append(np.concatenate([np.full((len(frame), 1), ct), frame], 1))
    for wv in (gw[0], gw[-1]):
        out.append(np.stack([text_len + np.arange(Ta), np.zeros(Ta), np.full(Ta, wv)], 1))
    for t in tg:
        out.append(np.concatenate([np.full((len(frame), 1), t), frame], 1))
    return torch.from_numpy(np.concatenate(out))
