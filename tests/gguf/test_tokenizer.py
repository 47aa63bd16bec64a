"""Both kinds of tokenizer, their special tokens, and damaged vocabularies."""

import itertools
import random
import re

import pytest
from plugrad_gguf import load

from tests.gguf.files import tiny
from tests.gguf.vocabularies import (
    LETTERS,
    MERGES,
    PIECES,
    SPECIAL,
    bytelevel,
    sentencepiece,
)

NAMES = ["gpt-2", "smollm", "llama-bpe", "qwen2", "default", None]
TEXTS = [
    "the low wall",
    "1234567",
    "x\u00f6\u4e2d\U0001f600",
    "  a\n\n b\t",
    "",
    "I'LL",
]


def tokenizer(folder, vocabulary, **options):
    return load(tiny(folder, vocabulary=vocabulary, **options).path).tokenizer


def shown(made, text, **options):
    return [made.tokens[code] for code in made.encode(text, **options)]


# How each style splits, worked out by hand from its regular expression.
WORDS = {
    "gpt-2": ["I", "'", "LL", " go", " 1234", "  ", " x", "!?", "\n", "\n", "y"],
    "smollm": [
        "I",
        "'",
        "LL",
        " go",
        " ",
        "1",
        "2",
        "3",
        "4",
        "  ",
        " x",
        "!?",
        "\n",
        "\n",
        "y",
    ],
    "llama-bpe": ["I", "'LL", " go", " ", "123", "4", "  ", " x", "!?\n\n", "y"],
    "qwen2": ["I", "'LL", " go", " ", "1", "2", "3", "4", "  ", " x", "!?\n\n", "y"],
}


@pytest.mark.parametrize("pre", WORDS)
def test_words_are_split_in_the_style_of_the_file(pre):
    from plugrad_gguf.bytelevel import PRETOKENIZERS, _make_pretokenizer

    text = "I'LL go 1234   x!?\n\ny"
    parts = _make_pretokenizer(PRETOKENIZERS[pre]).pre_tokenize_str(text)
    assert [text[begin:end] for _, (begin, end) in parts] == WORDS[pre]


def merged(word):
    """Apply the merges one by one, the naive way."""
    parts = [LETTERS[value] for value in word.encode()]
    while True:
        pairs = [f"{a} {b}" for a, b in itertools.pairwise(parts)]
        found = [merge for merge in MERGES if merge in pairs]
        if not found:
            return parts
        i = pairs.index(found[0])
        parts[i : i + 2] = [found[0].replace(" ", "")]


def test_merges_are_applied_in_order(tmp_path):
    made = tokenizer(tmp_path, bytelevel("gpt-2"))
    rng = random.Random(1)
    for _ in range(200):
        text = "".join(rng.choice(" thelow") for _ in range(12))
        words = re.findall(r" ?[a-z]+|\s+(?!\S)|\s+", text)
        assert shown(made, text) == [part for word in words for part in merged(word)]


@pytest.mark.parametrize("pre", NAMES)
def test_bytes_come_back(pre, tmp_path):
    made = tokenizer(tmp_path, bytelevel(pre))
    for text in TEXTS:
        assert made.decode(made.encode(text, bos=False)) == text


def test_special_tokens_are_found_in_a_text(tmp_path):
    made = tokenizer(tmp_path, bytelevel("smollm"))
    text = "<|im_start|>the<|im_end|>"
    assert shown(made, text) == ["<|im_start|>", "the", "<|im_end|>"]
    assert made.decode(made.encode(text)) == "the"
    assert made.decode(made.encode(text), special=True) == text
    untrusted = shown(made, text, special=False)
    assert "<|im_start|>" not in untrusted
    assert made.decode(made.encode(text, special=False)) == text
    assert shown(made, "a  tab  b", special=False) == ["a", "  tab  ", "b"]
    assert {made.tokens[code] for code in made.ends} == {"<|im_end|>", SPECIAL[0]}


@pytest.mark.parametrize(
    ("settings", "pre", "begins"),
    [
        ({}, "smollm", False),
        ({}, "llama-bpe", True),
        ({"add_add_bos_token": True}, "smollm", True),
        ({"add_add_bos_token": False}, "llama-bpe", False),
    ],
)
def test_a_text_begins_with_bos_if_the_file_says_so(settings, pre, begins, tmp_path):
    made = tokenizer(tmp_path, bytelevel(pre, **settings))
    assert (made.encode("the")[0] == made.bos) is begins
    assert made.encode("<|im_start|>the").count(made.bos) == 1  # none is added
    assert made.encode("the", bos=True) == [made.bos, *made.encode("the", bos=False)]


def test_a_word_of_llama_3_that_is_a_token_is_not_merged(tmp_path):
    merges = ["h e", "t h", "th e"]  # "th" and "e" never meet
    made = tokenizer(tmp_path, bytelevel("gpt-2", merges=merges))
    assert shown(made, "the") == ["t", "he"]
    made = tokenizer(tmp_path, bytelevel("llama-bpe", merges=merges))
    assert shown(made, "the", bos=False) == ["the"]


# --- SentencePiece ---------------------------------------------------------------


def best_pieces(text):
    """Repeatedly merge the best pair, the naive way."""
    parts = [*text.replace(" ", "\u2581")]
    while True:
        pairs = [a + b for a, b in itertools.pairwise(parts)]
        found = [pair for pair in pairs if pair in PIECES]
        if not found:
            return parts
        best = max(found, key=PIECES.get)
        i = pairs.index(best)
        parts[i : i + 2] = [best]


def test_the_best_pairs_are_merged_first(tmp_path):
    made = tokenizer(tmp_path, sentencepiece())
    assert shown(made, "hello") == ["<s>", "▁hello"]
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choice(" hello") for _ in range(rng.randrange(1, 15)))
        assert shown(made, text)[1:] == best_pieces(f" {text}")


def test_unknown_characters_become_bytes(tmp_path):
    made = tokenizer(tmp_path, sentencepiece())
    assert shown(made, "\u00f6")[1:] == ["▁", "<0xC3>", "<0xB6>"]
    for text in TEXTS:
        assert made.decode(made.encode(text)) == text
    assert made.decode(made.encode("<s>h</s>")) == "h"
    assert shown(made, "<s>h</s>e") == ["<s>", "▁h", "</s>", "▁", "e"]


def test_a_file_may_add_no_space(tmp_path):
    made = tokenizer(tmp_path, sentencepiece(add_add_space_prefix=False))
    assert shown(made, "he") == ["<s>", "he"]
    assert made.decode(made.encode(" he")) == " he"


# --- errors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (None, "has the tokenizer None; supported are 'gpt2'"),
        (lambda w: w.add_tokenizer_model("t5"), "has the tokenizer 't5'"),
        (lambda w: w.add_tokenizer_model("gpt2"), "ggml.tokens is missing"),
        (
            bytelevel("tekken"),
            "pre-tokenizer 'tekken' is unknown; supported are default, gpt-2",
        ),
        (bytelevel(merges=[*MERGES, "xy"]), "merge 9 is 'xy'"),
        (bytelevel(add_eot_token_id=999), "eot_token_id is 999; the vocabulary has"),
        (sentencepiece({"▁" + str(i): 0.0 for i in range(99)}), "names 358 tokens"),
    ],
)
def test_errors_say_what_is_wrong(vocabulary, message, tmp_path):
    model = load(tiny(tmp_path, vocabulary=vocabulary).path)
    with pytest.raises(ValueError, match=re.escape(message)):
        _ = model.tokenizer
    assert model.logits([1]).shape == (1, 300)  # logits need no tokenizer


def test_numbers_outside_of_the_vocabulary_have_no_text(tmp_path):
    made = tokenizer(tmp_path, bytelevel())
    with pytest.raises(ValueError, match="decode: there is no token 999"):
        made.decode([999])
