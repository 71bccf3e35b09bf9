#!/usr/bin/env python3
"""Makes tests/golden/data, the repository's own choice of a full golden tree, small enough to be kept in git.

    tools/golden/select_golden.py GOLDEN_DIR tests/golden/data

Every component is covered; where the full tree has many cases of one kind, a few are kept. Files are copied byte for byte, or, for
safetensors, with some of their tensors left out (values untouched). Only the standard library is needed.
"""
import json
import os
import shutil
import struct
import sys

LIMIT = 20_000_000  # bytes

# Whole files and folders.
COPY = [
    "dit/README.md", "dit/tiny_dit.json", "dit/tiny_dit.safetensors", "dit/schedule.json", "dit/shapes.json", "dit/packing_cases.json",
    "dit/packing_cases.safetensors", "dit/rng.json", "dit/rng.safetensors",
    "text/README.md", "text/qwen", "text/tokenizer_cases.json", "text/presentation_cases.json", "text/shape_cases.json",
    "text/tiny_qwen3vl.config.json", "text/text_only.safetensors", "text/one_token.safetensors", "text/one_image.safetensors",
    "vae/README.md", "vae/tables.json", "vae/tiny_video_vae.config.json", "vae/tiny_video_vae.safetensors", "vae/tiny_audio_vae.config.json",
    "vae/tiny_audio_vae.safetensors",
    "weights/README.md", "weights/bad_safetensors", "weights/quirks_valid", "weights/dtype_zoo", "weights/sharded",
    "weights/gguf", "weights/bad_gguf",
]
HEADERS = ("dit_pruned_q4_k.gguf",)  # of weights/headers
LEAVE_OUT = {"text/qwen/text_encoder_tensors.tsv"}

DIT_CASES = ("t2va_small", "t2va", "fl2va_both", "ref2va_all", "retake_both")
TRAJECTORIES = ("t2va_4", "fl2va_4", "retake_4")
VAE_CASES = ("dec_1tok_32x32.pixels4", "dec_5f_32x32.pixels", "dec_22f_32x32.raw", "dec_39f_32x32.raw_frames_16_22",
             "dec_tiled64o32_112x64.raw_frame_18", "dec_37.wave")
VAE_ENCODES = ("enc_img_32x32", "enc_img_37x50", "enc_img_tiled_96x160", "enc_22f_32x32", "enc_39f_32x32", "enc_1p0s")
PREPROCESS = ("img_grad_17x33", "img_pattern_256x256_noop", "img_small_5x5", "img_small_rgba", "img_small_palette",
              "vid_1f_64x64", "vid_2f_33x32_min", "lanczos_noise_64x48_to_96x64", "lanczos_palette_45x33_to_96x32", "lanczos_rgba_40x56_to_64x64",
              "lanczos_noise_5x5_to_64x96")


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def filter_safetensors(source, target, keep):
    """Copies the tensors for which keep(name) holds."""
    header, data = read_safetensors(source)
    out, blob = {}, b""
    if "__metadata__" in header:
        out["__metadata__"] = header["__metadata__"]
    names = [n for n in header if n != "__metadata__" and keep(n)]
    for name in sorted(names, key=lambda n: header[n]["data_offsets"]):
        begin, end = header[name]["data_offsets"]
        out[name] = dict(header[name], data_offsets=[len(blob), len(blob) + end - begin])
        blob += data[begin:end]
    text = json.dumps(out, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob)


def filter_json(source, target, edit):
    document = json.load(open(source, encoding="utf-8"))
    json.dump(edit(document), open(target, "w", encoding="utf-8"), indent=1, ensure_ascii=False)


class Selection:
    def __init__(self, source, target):
        self.source, self.target = source, target

    def paths(self, relative):
        out = os.path.join(self.target, relative)
        os.makedirs(os.path.dirname(out), exist_ok=True)
        return os.path.join(self.source, relative), out

    def copy(self, relative):
        source, target = self.paths(relative)
        if os.path.isdir(source):
            for name in sorted(os.listdir(source)):
                self.copy(f"{relative}/{name}")
        elif relative not in LEAVE_OUT:
            shutil.copyfile(source, target)

    def tensors(self, relative, keep):
        filter_safetensors(*self.paths(relative), keep)

    def json(self, relative, edit):
        filter_json(*self.paths(relative), edit)

    def denoiser(self):
        self.json("dit/tiny_dit.json", lambda d: dict(d, cases={k: v for k, v in d["cases"].items() if k in DIT_CASES}))
        self.tensors("dit/tiny_dit_cases.safetensors", lambda n: n.split(".")[0] in DIT_CASES)
        self.json("dit/trajectory.json", lambda d: {k: v for k, v in d.items() if k in TRAJECTORIES})
        self.tensors("dit/trajectory.safetensors", lambda n: n.split(".")[0] in TRAJECTORIES)

    def headers(self):
        self.json("weights/headers/index.json", lambda d: dict(d, files={k: v for k, v in d["files"].items() if k in HEADERS}))
        for name in HEADERS:
            self.copy(f"weights/headers/{name}.hdr")

    def text(self):
        config = json.load(open(os.path.join(self.source, "text/tiny_qwen3vl.config.json")))
        used = config["num_retained_layers"]

        def needed(name):  # the layers that H3 does not use are left out
            return not name.startswith("lm_head") and not any(
                f".layers.{i}." in name for i in range(used, config["text_config"]["num_hidden_layers"]))
        self.tensors("text/tiny_qwen3vl.safetensors", needed)

        cases_path = os.path.join(self.source, "text/preprocess/cases.json")
        document = json.load(open(cases_path, encoding="utf-8"))
        cases = document["cases"] if isinstance(document, dict) else document
        kept = [c for c in cases if c["name"] in PREPROCESS]
        self.json("text/preprocess/cases.json", lambda d: dict(d, cases=kept) if isinstance(d, dict) else kept)
        keys, files = set(), set()
        for case in kept:
            for source in case["sources"]:
                (files if source.endswith(".png") else keys).add(source)
            for resized in case["resized"]:
                files.add(resized["file"]) if "file" in resized else keys.add(resized["tensor"])
            keys |= {case[k] for k in ("tensor", "tensor_rows", "tensor_u8") if k in case}
        for name in sorted(files):
            self.copy(f"text/preprocess/{name}")
        self.tensors("text/preprocess/preprocess.safetensors", lambda n: any(n == k or n.startswith(k + ".") for k in keys))

    def vae(self):
        document = json.load(open(os.path.join(self.source, "vae/cases.json")))
        kept = [c for c in document["cases"] if c["model"] != "tiny_audio_vae_comfy" and
                (c["name"] in VAE_CASES or any(c["name"].startswith(e + ".") or c["name"] == e for e in VAE_ENCODES))]
        self.json("vae/cases.json", lambda d: dict(d, cases=kept))
        self.tensors("vae/video_stages.safetensors", lambda n: n.startswith(("dec.", "rng.")))
        self.tensors("vae/audio_stages.safetensors", lambda n: n.startswith(("aliasfree.", "dec.", "filter.", "folded.", "resample.")))
        keys = {}

        def collect(node):
            if isinstance(node, dict):
                if "file" in node and "key" in node:
                    keys.setdefault(node["file"], set()).add(node["key"])
                for value in node.values():
                    collect(value)
            elif isinstance(node, list):
                for value in node:
                    collect(value)
        collect(kept)
        for file, names in sorted(keys.items()):
            self.tensors(f"vae/{file}", lambda n, names=names: n in names or any(n.startswith(k.split(".")[0] + ".") and k.startswith("enc_") for k in names))


def main():
    source, target = sys.argv[1:3]
    shutil.rmtree(target, ignore_errors=True)
    selection = Selection(source, target)
    for relative in COPY:
        selection.copy(relative)
    selection.denoiser()
    selection.headers()
    selection.text()
    selection.vae()
    total = sum(os.path.getsize(os.path.join(folder, f)) for folder, _, files in os.walk(target) for f in files)
    print(f"{target}: {total} bytes of at most {LIMIT}")
    return 0 if total <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
