# One block of MiniMax-H3's transformer at real width in PyTorch, on the CPU in bfloat16: what a plain port costs.
#
#   python3 torch_block.py [--rows N] [--threads N] [--runs N] [--fused] [--compile]
#
# Attention: two matrix products and a softmax, or with --fused scaled_dot_product_attention, which is slower by far in builds without MKL
# (Debian's), where it was measured. Take the better of both.
import argparse
import math
import resource
import statistics
import time

import torch
import torch.nn.functional as F

HIDDEN, HEADS, WIDTH, INNER, CURVE = 5376, 56, 128, 14336, 8


class Block:
    def __init__(self):
        def matrix(rows, columns):
            return torch.randn(rows, columns, dtype=torch.bfloat16) / math.sqrt(columns)

        self.qkv = matrix(3 * HEADS * WIDTH, HIDDEN)
        self.out = matrix(HIDDEN, HEADS * WIDTH)
        self.fc1 = matrix(2 * INNER, HIDDEN)
        self.fc2 = matrix(HIDDEN, INNER)
        self.modulation = matrix(18 * HIDDEN, CURVE).float()
        self.norms = [torch.ones(HIDDEN, dtype=torch.bfloat16) for _ in range(2)]
        self.head_norms = [torch.ones(WIDTH, dtype=torch.bfloat16) for _ in range(2)]


def normalised(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


# First 96 of 128 dimensions, pairs 48 apart.
def rotated(x, cos, sin):
    a, b, rest = x[..., :48], x[..., 48:96], x[..., 96:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), dim=-1)


def attention(q, k, v, fused):
    if fused:
        return F.scaled_dot_product_attention(q, k, v)
    return torch.softmax(torch.matmul(q * WIDTH**-0.5, k.transpose(-1, -2)), dim=-1) @ v


# `kind`: the modality of every row, which chooses its six vectors of modulation.
def forward(block, x, curve, kind, cos, sin, fused):
    rows = x.shape[0]
    table = F.linear(curve, block.modulation).to(x.dtype).view(3, 6, HIDDEN)
    shift1, scale1, gate1, shift2, scale2, gate2 = (table[kind, i] for i in range(6))
    h = normalised(x, block.norms[0]) * (1 + scale1) + shift1
    q, k, v = F.linear(h, block.qkv).view(rows, 3, HEADS, WIDTH).unbind(1)
    q = rotated(normalised(q, block.head_norms[0]), cos, sin)
    k = rotated(normalised(k, block.head_norms[1]), cos, sin)
    q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in (q, k, v))
    seen = attention(q, k, v, fused)
    x = x + gate1 * F.linear(seen[0].transpose(0, 1).reshape(rows, HEADS * WIDTH), block.out)
    h = normalised(x, block.norms[1]) * (1 + scale2) + shift2
    gate, up = F.linear(h, block.fc1).chunk(2, dim=-1)
    return x + gate2 * F.linear(F.silu(gate) * up, block.fc2)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=2048)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--fused", action="store_true")
    arguments.add_argument("--compile", action="store_true")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    block = Block()
    x = torch.randn(options.rows, HIDDEN, dtype=torch.bfloat16)
    kind = torch.tensor([1] * 128 + [2] * 128 + [0] * (options.rows - 256))
    angles = torch.rand(options.rows, 1, 48) * 100
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    curve = torch.randn(CURVE)
    step = torch.compile(forward) if options.compile else forward
    seconds, used = [], []
    with torch.inference_mode():
        for i in range(options.runs + 1):
            start, start_used = time.monotonic(), time.process_time()
            y = step(block, x, curve, kind, cos, sin, options.fused)
            seconds.append(time.monotonic() - start)
            used.append(time.process_time() - start_used)
    assert torch.isfinite(y).all() and y.float().std() > 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6
    print(f"PyTorch {torch.__version__}, {options.rows} rows, 1 block, {options.threads} threads, bf16,{' fused attention,' if options.fused else ''} oneDNN "
          f"{torch.backends.mkldnn.is_available()}: median {statistics.median(seconds[1:]):.3f} s, least {min(seconds[1:]):.3f} s, "
          f"first {seconds[0]:.3f} s, CPU {statistics.median(used[1:]):.3f} s, peak {peak:.0f} MB")


main()
