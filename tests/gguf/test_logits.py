"""Logits of tiny models, compared with NumPy, for every backend and weight type."""

import gguf
import numpy as np
import plugrad as pg
import pytest
from gguf import GGMLQuantizationType as Kind
from plugrad_conformance.check import require_dtypes
from plugrad_gguf import load
from plugrad_gguf.llama import Caches, embed, rotary_tables, run, to_logits

from tests.gguf import reference
from tests.gguf.files import BIASED, tiny

TOKENS = [17, 250, 3, 3, 99, 120, 0]
# Logits are up to 30; backends sum in different orders.
TOLERANCE = {"rtol": 1e-4, "atol": 2e-4}
CASES = {
    "llama": {},
    "llama with a head": {"tied": False},
    "qwen2": {"architecture": "qwen2", "biased": BIASED, "tied": False},
    "biases everywhere": {"biased": (*BIASED, "attn_output", "ffn_up", "ffn_down")},
    "a key head for all": {"kv_heads": 1},
    "a key head for each": {"kv_heads": 4},
    "half of a head rotates": {"rope_size": 8},
    "half of a head rotates, qwen2": {"architecture": "qwen2", "rope_size": 8},
    "other heads than width": {"head_size": 8, "rope_size": 8},
    "another base": {"base": 500000.0, "epsilon": 1e-6},
    "one layer": {"layers": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_numpy(case, backend, tmp_path):
    made = tiny(tmp_path, **CASES[case])
    found = load(made.path).logits(TOKENS)
    assert found.backend == backend
    np.testing.assert_allclose(
        found.numpy(), reference.logits(made, TOKENS), **TOLERANCE
    )


def test_frequencies_are_divided_by_the_factors_in_the_file(tmp_path):
    factors = {"rope_freqs.weight": np.float32([1, 1, 1, 1, 1.5, 2, 4, 8])}
    made = tiny(tmp_path, arrays=factors)
    found = load(made.path, backend="cpu").logits(TOKENS)
    wanted = reference.logits(made, TOKENS)
    np.testing.assert_allclose(found.numpy(), wanted, **TOLERANCE)
    plain = reference.logits(tiny(tmp_path, name="plain.gguf"), TOKENS)
    assert abs(wanted - plain).max() > 0.1


def yarn_factors(base, size, context, factor, fast, slow):
    """Return what divides the frequencies, as in Hugging Face's code."""
    pairs = np.arange(size // 2)
    turns = context * base ** (-2 * pairs / size) / (2 * np.pi)  # in the old context
    first = size * np.log(context / (fast * 2 * np.pi)) / (2 * np.log(base))
    last = size * np.log(context / (slow * 2 * np.pi)) / (2 * np.log(base))
    first, last = max(np.floor(first), 0), min(np.ceil(last), size - 1)
    ramp = np.clip((pairs - first) / max(last - first, 0.001), 0, 1)
    assert (ramp[turns > fast] == 0).all()
    assert (ramp[turns < slow] == 1).all()
    return 1 / (ramp / factor + (1 - ramp))


SCALED = {
    "linear": (
        {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
        {"factors": 4.0},
    ),
    "linear, by an old name": ({"llama.rope.scale_linear": 2.0}, {"factors": 2.0}),
    "a factor of 0": (
        {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 0.0},
        {},
    ),
    "yarn": (
        {
            "llama.rope.scaling.type": "yarn",
            "llama.rope.scaling.factor": 8.0,
            "llama.rope.scaling.original_context_length": 4096,
        },
        {
            "factors": yarn_factors(10000.0, 16, 4096, 8.0, 32.0, 1.0),
            "magnitude": 1 + 0.1 * np.log(8.0),
        },
    ),
    "yarn with settings": (
        {
            "llama.rope.scaling.type": "yarn",
            "llama.rope.scaling.factor": 3.0,
            "llama.rope.scaling.original_context_length": 512,
            "llama.rope.scaling.attn_factor": 0.8,
            "llama.rope.scaling.yarn_beta_fast": 16.0,
            "llama.rope.scaling.yarn_beta_slow": 2.0,
        },
        {
            "factors": yarn_factors(10000.0, 16, 512, 3.0, 16.0, 2.0),
            "magnitude": 0.8 * (1 + 0.1 * np.log(3.0)),
        },
    ),
    "yarn without extrapolation": (
        {
            "llama.rope.scaling.type": "yarn",
            "llama.rope.scaling.factor": 3.0,
            "llama.rope.scaling.yarn_ext_factor": 0.0,
        },
        {"factors": 3.0},
    ),
}


@pytest.mark.parametrize("case", SCALED)
def test_scaled_rotary_embeddings_equal_numpy(case, backend, tmp_path):
    extra, expected = SCALED[case]
    made = tiny(tmp_path, extra=extra)
    made.sizes.update(expected)
    found = load(made.path).logits(TOKENS)
    wanted = reference.logits(made, TOKENS)
    np.testing.assert_allclose(found.numpy(), wanted, **TOLERANCE)
    plain = reference.logits(tiny(tmp_path, name="plain.gguf"), TOKENS)
    assert (abs(wanted - plain).max() > 0.02) == bool(expected)


def quantizable():
    """Return the types that gguf can write and read."""
    found = []
    for kind in Kind:
        block, _ = gguf.GGML_QUANT_SIZES[kind]
        try:
            data = gguf.quantize(np.ones((1, block), np.float32), kind)
            gguf.dequantize(data, kind)
        except NotImplementedError:
            continue
        found.append(kind)
    return found


QUANTIZABLE = quantizable()


def test_types_that_files_use_are_tried():
    names = {kind.name for kind in QUANTIZABLE}
    assert names >= {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}


@pytest.mark.parametrize("kind", QUANTIZABLE, ids=lambda kind: kind.name)
def test_every_type_equals_numpy(kind, tmp_path):
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    sizes = {"width": 256, "hidden": 256, "heads": 16} if block > 32 else {}
    made = tiny(tmp_path, kind=kind, **sizes)
    found = load(made.path, backend="cpu").logits(TOKENS)
    np.testing.assert_allclose(
        found.numpy(), reference.logits(made, TOKENS), **TOLERANCE
    )


def test_bfloat16_matrices_stay_bfloat16(backend, tmp_path):
    require_dtypes(backend, pg.bfloat16)
    made = tiny(tmp_path, kind=Kind.BF16)
    model = load(made.path)
    found = model.logits(TOKENS)
    np.testing.assert_allclose(
        found.numpy(), reference.logits(made, TOKENS), **TOLERANCE
    )
    step = [model.logits(TOKENS[:n]).numpy()[-1] for n in (1, 2)]
    np.testing.assert_allclose(step, found.numpy()[:2], **TOLERANCE)
    expected = "float32" if backend == "primitives" else "bfloat16"
    matrices = model._active_params().matrices.values()
    assert {w.values.dtype.name for w in matrices} == {expected}


@pytest.mark.parametrize("name", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_k_quants_are_read_as_the_package_gguf_reads_them(name, tmp_path):
    """The package cannot write K-quants: blocks are random bytes with plain scales."""
    kind = Kind[name]
    _, nbytes = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(1)
    data = rng.integers(0, 256, (300, nbytes), np.uint8)
    half = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    begin = {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208}.get(name, 0)
    data[:, begin : begin + 2] = half
    if name in ("Q2_K", "Q4_K", "Q5_K"):
        data[:, begin + 2 : begin + 4] = half
    path = tmp_path / "k.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    from plugrad_gguf.reader import read
    from plugrad_gguf.weights import convert

    info = read(path, pg.Budget.started(None, "load")).tensors["token_embd.weight"]
    assert (info.shape, info.kind) == ((300, 256), kind)
    found = convert(info)
    np.testing.assert_array_equal(found, gguf.dequantize(data, kind))
    assert np.isfinite(found).all()
    assert found.std() > 0


@pytest.mark.parametrize("case", ["llama", "qwen2"])
def test_caches_continue_a_text_in_parts(case, backend, tmp_path):
    """A prompt, a second part of several tokens, then single tokens under jit."""
    made = tiny(tmp_path, **CASES[case])
    model = load(made.path)
    config, params = model.config, model._active_params()
    rotary = rotary_tables(config, params, 32)
    caches = Caches.empty(config, 32)
    x = run(params, config, embed(params, pg.asarray(TOKENS[:3])), rotary, caches)
    found = [*to_logits(params, x).numpy()]
    x = embed(params, pg.asarray(TOKENS[3:5]))
    found += [*to_logits(params, run(params, config, x, rotary, caches, 3)).numpy()]

    def step(params, code, rotary, caches, position):
        x = run(params, config, embed(params, code), rotary, caches, position)
        return to_logits(params, x)[0]

    replayed = pg.jit(step, strict=True)
    tokens = [*TOKENS[:5], *range(40, 52)]
    for i in range(5, len(tokens)):
        code, position = pg.asarray(tokens[i : i + 1]), pg.asarray(i, dtype="int32")
        found.append(replayed(params, code, rotary, caches, position).numpy())
    wanted = reference.logits(made, tokens)
    np.testing.assert_allclose(np.stack(found), wanted, **TOLERANCE)
    assert "replays" in str(replayed.explain(params, code, rotary, caches, position))


PACKED = [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0]


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
def test_packed_weights_equal_numpy(kind, backend, tmp_path):
    made = tiny(tmp_path, kind=kind)
    model = load(made.path)
    found = model.logits(TOKENS)
    np.testing.assert_allclose(
        found.numpy(), reference.logits(made, TOKENS), **TOLERANCE
    )
    held = model._active_params().matrices["blk.0.ffn_up.weight"]
    assert held.codes.dtype == ("int8" if kind is Kind.Q8_0 else "uint8")
    assert held.codes.size == held.scale.size * 32 * held.bits // 8


@pytest.mark.parametrize("kind", [Kind.Q4_1, Kind.BF16], ids=lambda kind: kind.name)
def test_rounded_inputs_change_the_logits_a_little(kind, backend, tmp_path):
    if kind is Kind.BF16:
        require_dtypes(backend, pg.bfloat16)
    made = tiny(tmp_path, kind=kind)
    exact = load(made.path).logits(TOKENS).numpy()
    rounded = load(made.path, rounded=True)
    assert rounded.to("cpu").rounded
    change = np.abs(rounded.logits(TOKENS).numpy() - exact).max()
    held = rounded._active_params().matrices["blk.0.ffn_up.weight"]
    if kind is Kind.BF16 and held.values.dtype != pg.bfloat16:
        assert change == 0  # a backend without MixedMatMul holds float32
        return
    assert 1e-4 < change < 0.1 * np.abs(exact).max()


def test_jit_replays_logits_and_notices_steering(backend, tmp_path):
    made = tiny(tmp_path)
    model = load(made.path)
    f = pg.jit(lambda x: x * model.logits(TOKENS), strict=True)
    plain = model.logits(TOKENS).numpy()
    for i in range(4):
        found = f(pg.asarray(float(i))).numpy()
        np.testing.assert_allclose(found, i * plain, rtol=1e-5, atol=1e-5)
    for size in (1.0, 2.0):
        with model.steering(0, size * np.ones(made.sizes["width"])):
            steered = model.logits(TOKENS).numpy()
            found = [f(pg.asarray(1.0)).numpy() for _ in range(3)]
        np.testing.assert_allclose(found, [steered] * 3, rtol=1e-5, atol=1e-5)
        assert abs(steered - plain).max() > 0.1
    np.testing.assert_allclose(f(pg.asarray(1.0)).numpy(), plain, rtol=1e-5, atol=1e-5)
