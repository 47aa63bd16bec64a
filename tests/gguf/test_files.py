"""Damaged, hostile and unsupported files: error messages, and memory budgets."""

import os
import re
import struct
from pathlib import Path

import gguf
import numpy as np
import plugrad as pg
import pytest
from gguf import GGMLQuantizationType as Kind
from plugrad_gguf import ModelError, load

from tests.gguf import reference
from tests.gguf.files import SIZES, tiny
from tests.gguf.vocabularies import bytelevel


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def file(*, version=3, tensors=(), entries=(), tensor_count=None, entry_count=None):
    """Return the bytes of a file with any content and any counts."""
    counts = (
        len(tensors) if tensor_count is None else tensor_count,
        len(entries) if entry_count is None else entry_count,
    )
    head = b"GGUF" + struct.pack("<IQQ", version, *counts)
    return head + b"".join(entries) + b"".join(tensors)


def entry(name, kind, data):
    return text(name) + struct.pack("<I", kind) + data


def tensor(name, shape, kind=0, offset=0):
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + sizes + struct.pack("<IQ", kind, offset)


LLAMA = entry("general.architecture", 8, text("llama"))
STRINGS = lambda count: entry("a", 9, struct.pack("<IQ", 8, count))
NUMBERS = lambda kind, count: entry("a", 9, struct.pack("<IQ", kind, count))
ONE = b"\0" * 4
DAMAGED = {
    b"": "the file is empty",
    b"GG": "it begins with b'GG'; a GGUF file begins with b'GGUF'",
    b"GGUF\3\0": "byte 4: 4 bytes should follow, but the file ends after 2",
    file(version=1): "its GGUF version is 1; 2 and 3 are supported",
    file(version=3 << 24): "it is for big-endian machines",
    file(entry_count=2**60): "1152921504606846976 metadata entries should follow, but",
    file(tensor_count=2**63): "9223372036854775808 tensors should follow, but only 0",
    file(entries=[entry("a", 99, ONE)]): "metadata of the unknown type 99",
    file(entries=[NUMBERS(99, 1)]): "an array of the unknown type 99",
    file(entries=[STRINGS(2**61)]): "2305843009213693952 strings should follow, but",
    file(entries=[NUMBERS(6, 2**62)]): "18446744073709551616 bytes should follow",
    file(entries=[NUMBERS(9, 2**40)]): "1099511627776 arrays should follow, but only 0",
    file(entries=[STRINGS(1) + struct.pack("<Q", 99)]): "string 0 of 1 is not complete",
    file(entries=[STRINGS(1) + b"\1" + b"\0" * 7 + b"\xff"]): "a string is not UTF-8",
    file(entries=[entry("a", 8, b"\1" + b"\0" * 7 + b"\xff")]): "a string is not UTF-8",
    file(entries=[LLAMA, LLAMA]): "metadata 'general.architecture' occurs twice",
    file(entries=[entry("general.alignment", 4, ONE)]): "general.alignment is 0, which",
    file(tensors=[tensor("w", [1] * 9)]): "tensor 'w' has 9 axes; the limit is 4",
    file(tensors=[tensor("w", [4])]): "it should end at byte 80, but the file has 57",
    file(tensors=[tensor("w", [0])]): "tensor 'w': its shape (0,) is not valid",
    file(tensors=[tensor("w", [2**63] * 4)]): "9223372036854775808) is not valid",
    file(tensors=[tensor("w", [2**40] * 4)]): "it should end at byte 58460065",
    file(tensors=[tensor("w", [1], offset=7)]): "its offset 7 is not a multiple of 32",
    file(
        tensors=[tensor("w", [1], offset=2**64 - 32)]
    ): "it should end at byte 1844674",
    file(tensors=[tensor("w", [1], kind=77)]): "its type has the number 77, which the",
    file(tensors=[tensor("w", [9], kind=2)]): "Q4_0 stores rows in blocks of 32, not 9",
    file(entries=[entry("a\x1b[2J", 99, ONE)] * 2): "metadata of the unknown type 99",
    file(): "its architecture is None; supported are llama and qwen2",
    file(entries=[entry("general.architecture", 8, text("\x1b"))]): r"is '\x1b'; supp",
    file(entries=[entry("general.architecture", 9, struct.pack("<IQ", 8, 0))]): "is []",
}


@pytest.mark.parametrize("data", DAMAGED, ids=DAMAGED.values())
def test_damaged_files_are_refused(data, tmp_path):
    (tmp_path / "x.gguf").write_bytes(data)
    with pytest.raises(ModelError) as raised:
        load(tmp_path / "x.gguf")
    assert DAMAGED[data] in str(raised.value)
    assert str(raised.value).replace("\n", "").isprintable()


def test_every_beginning_of_a_file_is_refused(tmp_path):
    data = tiny(tmp_path, vocabulary=bytelevel(), layers=1).path.read_bytes()
    path = tmp_path / "cut.gguf"
    rng = np.random.default_rng(1)
    for size in [*range(200), *rng.integers(200, len(data), 200), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(ModelError):
            load(path)


UNSUPPORTED = {
    "llama.rope.scaling.type": (
        "longrope",
        "is 'longrope': supported are none, linear",
    ),
    "llama.expert_count": (8, "llama.expert_count is 8: a mixture of experts is not"),
    "llama.logit_scale": (0.5, "llama.logit_scale is 0.5: scaled logits are not"),
    "llama.attention.value_length": (8, "values of size 8 and keys of size 16 in one"),
}


def test_all_unsupported_settings_are_listed(tmp_path):
    extra = {name: value for name, (value, _) in UNSUPPORTED.items()}
    with pytest.raises(ModelError) as raised:
        load(tiny(tmp_path, extra=extra).path)
    assert len(raised.value.problems) == len(UNSUPPORTED)
    for _, message in UNSUPPORTED.values():
        assert message in str(raised.value)


BAD_SCALINGS = {
    "a list": ({"type": ["yarn"]}, "type is ['yarn']: supported are none"),
    "numbers": ({"type": [1, 2]}, "supported are none, linear, yarn"),
    "a negative factor": (
        {"type": "linear", "factor": -1.0},
        "factor is -1.0; it must",
    ),
    "no number": (
        {"type": "yarn", "factor": "8"},
        "factor is '8'; it must be a number",
    ),
    "no rotations": (
        {"type": "yarn", "yarn_beta_fast": 0.0},
        "yarn_beta_fast is 0.0; it must be a number from 0.001 to 1000000",
    ),
}


@pytest.mark.parametrize("case", BAD_SCALINGS)
def test_scalings_that_make_no_sense_are_refused(case, tmp_path):
    settings, message = BAD_SCALINGS[case]
    extra = {f"llama.rope.scaling.{name}": value for name, value in settings.items()}
    with pytest.raises(ModelError) as raised:
        load(tiny(tmp_path, extra=extra).path)
    assert message in str(raised.value)


def test_yarn_needs_a_base_above_one(tmp_path):
    extra = {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2.0}
    with pytest.raises(ModelError, match="freq_base must be above 1 for YaRN"):
        load(tiny(tmp_path, extra=extra, base=1.0).path)


def test_settings_that_change_nothing_are_accepted(tmp_path):
    plain = {"llama.rope.scaling.type": "none", "llama.expert_count": 0}
    made = tiny(tmp_path, extra={**plain, "llama.attention.sliding_window": 9})
    assert load(made.path).config.context == 9  # up to its size, a window has no effect
    with pytest.raises(ValueError, match="has 10 tokens; it must have 1 to 9"):
        load(made.path).logits(range(10))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kv_heads": 3}, "4 query heads cannot share 3 key heads"),
        (
            {"rope_size": 18},
            "elements per head, 18, must be even and at most the head size, 16",
        ),
        ({"rope_size": 7}, "elements per head, 7, must be even"),
        ({"without": ["block_count"]}, "the metadata llama.block_count is missing"),
        ({"context": 0}, "context_length is 0; it must be one positive integer"),
        ({"epsilon": -1.0}, "epsilon is -1.0; it must be a positive number"),
        ({"epsilon": float("nan")}, "epsilon is nan; it must be a positive number"),
        ({"base": float("inf")}, "freq_base is inf; it must be a positive number"),
        (
            {"arrays": {"blk.0.attn_norm.bias": np.ones(64, np.float32)}},
            "tensor 'blk.0.attn_norm.bias' is unknown: the supported models of the",
        ),
        ({"architecture": "gpt2"}, "its architecture is 'gpt2'; supported are llama"),
        (
            {"arrays": {"blk.1.attn_k.weight": np.ones((3, 64), np.float32)}},
            "'blk.1.attn_k.weight' has the shape (3, 64), but the metadata implies (32",
        ),
    ],
)
def test_wrong_sizes_are_named(given, message, tmp_path):
    with pytest.raises(ModelError) as raised:
        load(tiny(tmp_path, **given).path)
    assert message in str(raised.value)


def test_a_missing_tensor_and_an_unsupported_type_are_named(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    for key, value in (
        ("block_count", 1),
        ("embedding_length", 8),
        ("feed_forward_length", 8),
        ("attention.head_count", 2),
        ("context_length", 8),
    ):
        writer.add_uint32(f"llama.{key}", value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tensor("token_embd.weight", np.zeros((4, 8), np.int32))
    writer.add_tensor("output_norm.weight", np.zeros(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError) as raised:
        load(tmp_path / "x.gguf")
    assert "tensor 'blk.0.attn_q.weight' is missing" in raised.value.problems
    unsupported = "tensor 'token_embd.weight' has the type I32, which is not supported"
    assert any(unsupported in problem for problem in raised.value.problems)
    assert len(raised.value.problems) == 10


# --- budgets ---------------------------------------------------------------------


def test_tensors_that_share_bytes_are_refused(tmp_path):
    """A small file could describe a huge model if layers could share their bytes."""
    tensors = [tensor("a", [8]), tensor("b", [8], offset=32), tensor("c", [8])]
    path = tmp_path / "x.gguf"
    path.write_bytes(file(tensors=tensors, entries=[LLAMA]) + bytes(256))
    with pytest.raises(ModelError) as raised:
        load(path)
    assert raised.value.problems == ("tensor 'c': its offset 0 is in another tensor",)


def test_tensors_of_few_bits_are_within_the_default_budget(tmp_path, monkeypatch):
    """A block of TQ1_0 grows from 54 bytes to 1,024, 19 times as much."""
    from plugrad._src.tools import budget

    monkeypatch.setattr(budget, "BASE_BYTES", 2**16)
    sizes = {"width": 256, "hidden": 256, "heads": 16, "tokens": 4000}
    path = tiny(tmp_path, kind=Kind.TQ1_0, **sizes).path
    needed = 4 * (4000 + 2 * (2 * 256 + 2 * 32 + 3 * 256)) * 256
    assert needed > 8 * path.stat().st_size + 2**16
    assert load(path, backend="cpu").logits([1]).shape == (1, 4000)
    with pytest.raises(ModelError, match="bytes are needed, but the budget allows"):
        load(path, budget=pg.Budget(bytes=needed))


def test_many_short_strings_exceed_the_budget(tmp_path):
    """Eight bytes of a file become more than a hundred bytes of memory."""
    count = 10**6
    path = tmp_path / "x.gguf"
    path.write_bytes(file(entries=[STRINGS(count) + bytes(8 * count)]))
    with pytest.raises(ModelError, match="bytes are needed, but the budget allows"):
        load(path, budget=pg.Budget(bytes=2**26))


def test_deeply_nested_arrays_exceed_the_budget(tmp_path):
    path = tmp_path / "x.gguf"
    nested = b"".join(struct.pack("<IQ", 9, 1) for _ in range(100_000))
    path.write_bytes(file(entries=[entry("a", 9, nested)]))
    with pytest.raises(ModelError, match="levels of functions, branches or models"):
        load(path)


def test_the_caller_sets_the_budget(tmp_path):
    path = tiny(tmp_path, vocabulary=bytelevel()).path
    with pytest.raises(ModelError, match=r"nodes or more, .* but the budget allows 9;"):
        load(path, budget=pg.Budget(nodes=9))
    with pytest.raises(ModelError, match="are needed, but the budget allows 30000;"):
        load(path, budget=pg.Budget(bytes=30_000))
    with pytest.raises(ModelError, match="seconds of processor time, but the budget"):
        load(path, budget=pg.Budget(seconds=0))


def test_only_regular_files_are_opened(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.gguf")
    with pytest.raises(OSError, match="directory"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe"):
        load(tmp_path / "pipe")
    with pytest.raises(pg.BackendUnavailable, match=r"load: .*none"):
        load(tiny(tmp_path).path, backend="none")


# --- files that are unusual, but valid ---------------------------------------------


def test_an_alignment_of_one_byte_and_nested_metadata(tmp_path):
    """Tensors begin at odd addresses; metadata that no one reads is skipped."""
    made = tiny(tmp_path, layers=1)
    reader = gguf.GGUFReader(made.path)
    entries = [LLAMA, entry("general.alignment", 4, struct.pack("<I", 1))]
    names = {"layers": "block_count", "width": "embedding_length"}
    names |= {"hidden": "feed_forward_length", "heads": "attention.head_count"}
    names |= {"kv_heads": "attention.head_count_kv", "context": "context_length"}
    sizes = {**SIZES, "layers": 1}
    for key, name in names.items():
        entries.append(entry(f"llama.{name}", 4, struct.pack("<I", sizes[key])))
    name = "llama.attention.layer_norm_rms_epsilon"
    entries.append(entry(name, 6, struct.pack("<f", 1e-5)))
    tensors, data = [], b""
    for found in reader.tensors:
        tensors.append(tensor(found.name, found.shape.tolist(), Kind.F32, len(data)))
        data += found.data.tobytes()
    nested = [
        entry("nested", 9, struct.pack("<IQIQ", 9, 1, 0, count) + bytes(count))
        for count in (3, 4)
    ]
    heads = [file(tensors=tensors, entries=[*entries, last]) for last in nested]
    (head,) = [head for head in heads if len(head) % 2]
    path = tmp_path / "odd.gguf"
    path.write_bytes(head + data)
    found = load(path, backend="cpu").logits([1, 2, 3]).numpy()
    wanted = reference.logits(made, [1, 2, 3])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-4)


def test_weights_that_are_not_finite_give_results(tmp_path):
    values = np.float32([np.nan, np.inf, -np.inf, 3e38] * 16)
    made = tiny(tmp_path, arrays={"output_norm.weight": values})
    assert np.isnan(load(made.path, backend="cpu").logits([1]).numpy()).any()
    zeros = {"rope_freqs.weight": np.zeros(8, np.float32)}
    made = tiny(tmp_path, arrays=zeros, name="zeros.gguf")
    assert load(made.path, backend="cpu").logits([1, 2]).shape == (2, 300)


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="needs Linux' /proc")
def test_the_memory_of_the_file_is_released(tmp_path):
    path = tiny(tmp_path, kind=Kind.Q4_1, width=256, hidden=512).path
    model = load(path, backend="cpu")
    logits = model.logits([1, 2, 3]).numpy()
    maps = Path("/proc/self/smaps").read_text()
    mapped = re.search(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss: +(\d+) kB", maps)
    assert int(mapped[1]) * 1024 < path.stat().st_size / 4
    assert model.to("cpu").logits([1, 2, 3]).tolist() == logits.tolist()
