"""Small PyTorch implementation of the MiniMax-H3 graph with the official tensor names.

Four networks: `TextEncoder` (Qwen3-VL text model + vision tower with deepstack), `DiT`,
`VideoVAE` (causal CNN encoder + ViT decoder) and `AudioVAE` (DAC encoder + BigVGAN decoder).
All sizes come from the json configs, so the same code can hold the full model's weights.
"""
from .audio_vae import AudioVAE
from .dit import DiT, patchify, positions, unpatchify
from .text import TextEncoder
from .video_vae import IMEAN, ISTD, VideoVAE

__all__ = ["AudioVAE", "DiT", "IMEAN", "ISTD", "TextEncoder", "VideoVAE", "patchify", "positions", "unpatchify"]
