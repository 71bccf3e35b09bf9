"""`TextEncoder`: Qwen3-VL text model and vision tower with deepstack."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from .common import RMSNorm, attend, rope


class TextAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, self.nh, self.nk, self.dh = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.q_proj = nn.Linear(d, self.nh * self.dh, bias=False)
        self.k_proj = nn.Linear(d, self.nk * self.dh, bias=False)
        self.v_proj = nn.Linear(d, self.nk * self.dh, bias=False)
        self.o_proj = nn.Linear(self.nh * self.dh, d, bias=False)
        self.q_norm, self.k_norm = RMSNorm(self.dh, c["rms_norm_eps"]), RMSNorm(self.dh, c["rms_norm_eps"])

    def forward(self, x, cs, bias):
        b, n, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(b, n, self.nh, self.dh)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, n, self.nk, self.dh)).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.nk, self.dh).transpose(1, 2)
        q, k = rope(q, *cs), rope(k, *cs)
        g = self.nh // self.nk
        k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
        return self.o_proj(attend(q, k, v, bias).transpose(1, 2).reshape(b, n, -1))


class TextMLP(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.gate_proj = nn.Linear(d, h, bias=False)
        self.up_proj = nn.Linear(d, h, bias=False)
        self.down_proj = nn.Linear(h, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class TextLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = TextAttention(c)
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = TextMLP(c["hidden_size"], c["intermediate_size"])

    def forward(self, x, cs, bias):
        x = x + self.self_attn(self.input_layernorm(x), cs, bias)
        return x + self.mlp(self.post_attention_layernorm(x))


class VisBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["hidden_size"]
        self.nh = c["num_heads"]
        self.norm1, self.norm2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
        self.attn = nn.Module()
        self.attn.qkv, self.attn.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Module()
        self.mlp.linear_fc1, self.mlp.linear_fc2 = nn.Linear(d, c["intermediate_size"]), nn.Linear(c["intermediate_size"], d)

    def forward(self, x, cs):
        b, n, d = x.shape
        q, k, v = self.attn.qkv(self.norm1(x)).view(b, n, 3, self.nh, d // self.nh).permute(2, 0, 3, 1, 4)
        y = attend(rope(q, *cs), rope(k, *cs), v)
        x = x + self.attn.proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp.linear_fc2(F.gelu(self.mlp.linear_fc1(self.norm2(x)), approximate="tanh"))


class VisMerger(nn.Module):
    def __init__(self, c, post):
        super().__init__()
        d, self.post = c["hidden_size"], post
        self.h = d * c["spatial_merge_size"] ** 2
        self.norm = nn.LayerNorm(self.h if post else d, eps=1e-6)
        self.linear_fc1, self.linear_fc2 = nn.Linear(self.h, self.h), nn.Linear(self.h, c["out_hidden_size"])

    def forward(self, x):
        b = x.shape[0]
        x = self.norm(x.reshape(b, -1, self.h)) if self.post else self.norm(x).reshape(b, -1, self.h)
        return self.linear_fc2(F.gelu(self.linear_fc1(x)))


class VisionTower(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cfg = c
        d = c["hidden_size"]
        self.patch_embed = nn.Module()
        ps = c["patch_size"]
        self.patch_embed.proj = nn.Conv3d(3, d, (c["temporal_patch_size"], ps, ps), stride=(c["temporal_patch_size"], ps, ps))
        self.pos_embed = nn.Embedding(c["num_position_embeddings"], d)
        self.blocks = nn.ModuleList([VisBlock(c) for _ in range(c["depth"])])
        self.merger = VisMerger(c, False)
        self.deepstack_merger_list = nn.ModuleList([VisMerger(c, True) for _ in c["deepstack_visual_indexes"]])

    def _order(self, h, w):
        """Row-major patch index of every patch in merge order."""
        m = self.cfg["spatial_merge_size"]
        return torch.arange(h * w).view(h // m, m, w // m, m).permute(0, 2, 1, 3).reshape(-1)

    def forward(self, img):
        """[B,3,H,W] in -1..1 -> merged tokens [B,N,out] and the deepstack list."""
        c = self.cfg
        ps = c["patch_size"]
        B, _, H, W = img.shape
        h, w = H // ps, W // ps
        x = img.reshape(B, 3, h, ps, w, ps).permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, 3 * ps * ps)
        pw = self.patch_embed.proj.weight.sum(2).flatten(1)   # a still image fills both temporal slots
        x = F.linear(x, pw, self.patch_embed.proj.bias)
        side = int(c["num_position_embeddings"] ** 0.5)
        gy, gx = torch.linspace(0, side - 1, h), torch.linspace(0, side - 1, w)
        y0, x0 = gy.int(), gx.int()
        y1, x1 = (y0 + 1).clip(max=side - 1), (x0 + 1).clip(max=side - 1)
        dy, dx = (gy - y0)[:, None], (gx - x0)[None]
        P = lambda a, b: self.pos_embed((a[:, None] * side + b[None]).long())
        pos = (P(y0, x0) * ((1 - dy) * (1 - dx))[..., None] + P(y0, x1) * ((1 - dy) * dx)[..., None]
               + P(y1, x0) * (dy * (1 - dx))[..., None] + P(y1, x1) * (dy * dx)[..., None])
        x = x + pos.reshape(1, h * w, -1)
        order = self._order(h, w)
        x = x[:, order]
        dh = c["hidden_size"] // c["num_heads"]
        inv = 1.0 / (10000.0 ** (torch.arange(0, dh // 2, 2, dtype=torch.float32) / (dh // 2)))
        yy, xx = order // w, order % w
        f = torch.cat([yy[:, None].float() * inv, xx[:, None].float() * inv], -1)
        f = torch.cat([f, f], -1)
        cs = (torch.cos(f), torch.sin(f))
        deep = []
        for i, b in enumerate(self.blocks):
            x = b(x, cs)
            if i in c["deepstack_visual_indexes"]:
                deep.append(self.deepstack_merger_list[c["deepstack_visual_indexes"].index(i)](x))
        return self.merger(x), deep


class TextEncoder(nn.Module):
    """Hidden states after the last kept layer, no final norm."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        c = cfg["text_config"]
        self.model = nn.Module()
        lm = self.model.language_model = nn.Module()
        lm.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        lm.layers = nn.ModuleList([TextLayer(c) for _ in range(c["num_hidden_layers"])])
        lm.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])       # present in the file, not used
        self.model.visual = VisionTower(cfg["vision_config"])

    def angles(self, pos):
        """pos [3,B,N] -> interleaved M-RoPE cos, sin [B,1,N,dh]."""
        c = self.cfg["text_config"]
        dh = c["head_dim"]
        inv = 1.0 / (c["rope_theta"] ** (torch.arange(0, dh, 2, dtype=torch.float32) / dh))
        f = pos.float()[..., None] * inv
        out = f[0].clone()
        for ax in (1, 2):
            n = c["rope_scaling"]["mrope_section"][ax] * 3
            out[..., ax:n:3] = f[ax][..., ax:n:3]
        out = torch.cat([out, out], -1)[:, None]
        return torch.cos(out), torch.sin(out)

    def forward(self, ids, images=None, img_start=()):
        """ids [B,N]; images: list of [B,3,H,W] (-1..1) shown at the token offsets img_start."""
        lm = self.model.language_model
        B, N = ids.shape
        x = lm.embed_tokens(ids)
        p = torch.arange(N)
        pos = torch.stack([p, p, p])
        deep_add = []
        if images:
            m = self.cfg["vision_config"]["spatial_merge_size"] * self.cfg["vision_config"]["patch_size"]
            cols, cur, at = [], 0, 0
            for im, st in zip(images, img_start):
                gh, gw = im.shape[-2] // m, im.shape[-1] // m
                n = gh * gw
                cols.append((torch.arange(st - at) + cur).expand(3, -1))
                cur += st - at
                hh, ww = torch.meshgrid(torch.arange(gh), torch.arange(gw), indexing="ij")
                cols.append(torch.stack([torch.zeros(n).long(), hh.reshape(-1), ww.reshape(-1)]) + cur)
                cur += max(gh, gw)
                at = st + n
                emb, deep = self.model.visual(im)
                x = torch.cat([x[:, :st], emb.to(x.dtype), x[:, st + n:]], 1)
                deep_add.append((st, n, deep))
            cols.append((torch.arange(N - at) + cur).expand(3, -1))
            pos = torch.cat(cols, 1)
        cs = self.angles(pos[:, None])
        bias = torch.full((N, N), -1e4).triu(1)
        for i, l in enumerate(lm.layers):
            x = l(x, cs, bias)
            for st, n, deep in deep_add:
                if i < len(deep):
                    x = x + F.pad(deep[i].to(x.dtype), (0, 0, st, N - st - n))
        return x
