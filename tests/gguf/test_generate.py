"""Text from tiny models: greedy and drawn, streamed, with stop words and contexts."""

import builtins

import numpy as np
import pytest
from plugrad_gguf import load
from plugrad_gguf.sampling import Sampler, TextBuffer

from tests.gguf import reference
from tests.gguf.files import tiny
from tests.gguf.vocabularies import bytelevel


def greedy(made, tokens, count):
    """Return the most likely continuation, computed anew for each token in NumPy."""
    found = [*tokens]
    for _ in range(count):
        found.append(int(reference.logits(made, found)[-1].argmax()))
    return found[len(tokens) :]


@pytest.fixture
def made(tmp_path):
    return tiny(tmp_path, vocabulary=bytelevel(), seed=3)


@pytest.fixture
def model(made):
    return load(made.path, backend="cpu")


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_greedy_text_equals_numpy(architecture, backend, tmp_path):
    made = tiny(tmp_path, architecture=architecture, vocabulary=bytelevel(), seed=3)
    model = load(made.path)
    stream = model.stream("the low", max_tokens=12)
    text = "".join(stream)
    wanted = greedy(made, model.tokenizer.encode("the low"), 12)
    ends = [i for i, code in enumerate(wanted) if code in model.tokenizer.ends]
    wanted = wanted[: ends[0]] if ends else wanted
    assert len(wanted) > 4
    assert stream.tokens == wanted
    known = [code for code in stream.tokens if code < len(model.tokenizer.tokens)]
    assert text == model.tokenizer.decode(known)  # other token IDs have no text
    assert stream.reason == ("end" if ends else "length")


def test_pieces_add_up_and_are_passed_on(model):
    pieces = []
    text = model.generate("the", max_tokens=20, stream=pieces.append)
    assert "".join(pieces) == text
    assert len(pieces) > 1
    assert all(pieces)
    stream = model.stream("the", max_tokens=20)
    assert "".join(stream) == text
    assert stream.prompt_tokens == model.tokenizer.encode("the")
    assert stream.seconds > 0
    assert stream.prompt_seconds > 0


def test_seeds_repeat_a_text_and_differ(model):
    drawn = lambda **given: model.generate("the", max_tokens=16, **given)
    assert drawn(temperature=2.0, seed=1) == drawn(temperature=2.0, seed=1)
    assert len({drawn(temperature=2.0, seed=i) for i in range(5)}) > 1
    assert drawn(temperature=2.0, top_k=1) == drawn()
    assert drawn(temperature=1e-4, seed=1) == drawn()


def test_a_text_ends_before_a_stop_word(model):
    full = model.generate("the", max_tokens=24)
    word = full[5:8]
    stream = model.stream("the", max_tokens=24, stop=["never there", word])
    assert "".join(stream) == full[: full.index(word)]
    assert stream.reason == "stop"
    assert model.generate("the", max_tokens=24, stop=word) == full[: full.index(word)]


def test_a_text_ends_where_the_context_is_full(tmp_path):
    made = tiny(tmp_path, vocabulary=bytelevel(), context=8, seed=3)
    model = load(made.path, backend="cpu")
    stream = model.stream([1, 2, 3, 4, 5], max_tokens=100)
    list(stream)
    assert stream.tokens == greedy(made, [1, 2, 3, 4, 5], 4)
    assert stream.reason == "length"
    with pytest.raises(ValueError, match="text has 9 tokens; it must have 1 to 8"):
        model.generate([1] * 9)


def test_a_context_reads_only_what_is_new(model, monkeypatch):
    first, more = [5, 6, 7, 8], [5, 6, 7, 9, 10]
    context = model.new_context()
    assert context.tokens == []
    model.generate(first, max_tokens=4, context=context)
    assert context.tokens[:4] == first
    starts = []
    inner = context._run
    monkeypatch.setattr(
        context, "_run", lambda x, start: starts.append(start) or inner(x, start)
    )
    again = model.generate(more, max_tokens=6, context=context)
    assert starts == [3]
    assert again == model.generate(more, max_tokens=6)
    model.generate(more, max_tokens=6, context=context)
    assert starts == [3, 4]  # the last token is always read, for its logits


def test_a_context_grows(tmp_path, monkeypatch):
    from plugrad_gguf import generate

    monkeypatch.setattr(generate, "ROOM_MULTIPLE", 4)
    made = tiny(tmp_path, vocabulary=bytelevel(), seed=3)
    model = load(made.path, backend="cpu")
    context = model.new_context()
    for size in (3, 6, 20):
        tokens = [*range(40, 40 + size)]
        stream = model.stream(tokens, max_tokens=4, context=context)
        list(stream)
        assert stream.tokens == greedy(made, tokens, 4)
    assert context._caches.keys[0].shape == (1, 2, 32, 16)


def test_a_prompt_is_read_in_chunks(made, monkeypatch):
    from plugrad_gguf import generate

    monkeypatch.setattr(generate, "PROMPT_CHUNK", 3)
    model = load(made.path, backend="cpu")
    tokens = [*range(40, 50)]
    stream = model.stream(tokens, max_tokens=5)
    list(stream)
    assert stream.tokens == greedy(made, tokens, 5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": -1}, "temperature must be 0 or more, got -1"),
        ({"top_k": 0}, "top_k must be 1 or more, got 0"),
        ({"top_p": 1.5}, r"top_p must be in \(0, 1\], got 1.5"),
        ({"stop": [""]}, "stop words must be non-empty"),
        ({"max_tokens": -1}, "max_tokens must be 0 or more, got -1"),
    ],
)
def test_errors_name_the_argument(given, message, model):
    with pytest.raises(ValueError, match=f"generate: {message}"):
        model.generate("the", **given)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([], "has 0 tokens"), ([300], "no token 300"), ([-1], "no token -1")],
)
def test_errors_name_the_token(tokens, message, model):
    with pytest.raises(ValueError, match=f"logits: .*{message}"):
        model.logits(tokens)


# --- parts -----------------------------------------------------------------------


def test_draws_follow_the_probabilities():
    logits = np.log(np.float32([0.1, 0.4, 0.3, 0.2]))
    count = lambda **given: np.bincount(
        [sampler.choose(logits) for sampler in [Sampler(1.0, **given)] * 4000],
        minlength=4,
    )
    np.testing.assert_allclose(count(seed=1) / 4000, [0.1, 0.4, 0.3, 0.2], atol=0.03)
    kept = count(seed=1, top_k=2) / 4000
    np.testing.assert_allclose(kept, [0, 4 / 7, 3 / 7, 0], atol=0.03)
    kept = count(seed=1, top_p=0.65) / 4000
    np.testing.assert_allclose(kept, [0, 4 / 7, 3 / 7, 0], atol=0.03)
    hot = Sampler(100.0, seed=1)
    found = np.bincount([hot.choose(logits) for _ in range(4000)], minlength=4)
    np.testing.assert_allclose(found / 4000, 0.25, atol=0.03)


def test_damaged_weights_are_not_drawn_from():
    with pytest.raises(ValueError, match="the largest logit is nan; the weights"):
        Sampler(1.0).choose(np.float32([0.0, np.nan]))


def test_characters_and_stop_words_are_never_split():
    data = "a\u00f6\u4e2d\U0001f600 end STOP".encode()
    buffer = TextBuffer(["STOP", "TOPS"])
    pieces = []
    for value in data:
        text, stopped = buffer.add(bytes([value]))
        pieces.append(text)
        if stopped:
            break
    assert "".join(pieces) == "a\u00f6\u4e2d\U0001f600 end "
    assert stopped
    assert "\ufffd" not in "".join(pieces)


def test_the_beginning_of_a_stop_word_is_released():
    buffer = TextBuffer("STOP")
    assert buffer.add(b"a ST") == ("a ", False)
    assert buffer.add(b"AR") == ("STAR", False)
    assert buffer.add(b" STO") == (" ", False)
    assert buffer.finish() == "STO"
    buffer = TextBuffer(())
    assert buffer.add(b"\xf0\x9f") == ("", False)
    assert buffer.finish() == "\ufffd"


# --- chat ------------------------------------------------------------------------

MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "the"}]


def test_messages_are_rendered_by_the_template(model):
    text = "<|im_start|>system\ns<|im_end|><|im_start|>user\nthe<|im_end|>"
    assert model.chat_prompt(MESSAGES, reply=False) == text
    assert model.chat_prompt(MESSAGES) == f"{text}<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "the file has no chat template; write the prompt"),
        ("{{ raise_exception('no system') }}", "ValueError: no system; check the"),
        ("{{ raise_exception('\x1b[2J') }}", r"ValueError: \\x1b\[2J; check"),
        ("{% for %}", "TemplateSyntaxError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ range(10**9) | list }}", "OverflowError"),
        ("{{ messages.append(1) }}", "SecurityError"),
    ],
)
def test_templates_are_not_trusted(template, message, tmp_path):
    made = tiny(tmp_path, vocabulary=bytelevel(template=template))
    with pytest.raises(ValueError, match=f"chat: .*{message}"):
        load(made.path).chat_prompt(MESSAGES)


def test_a_message_needs_a_role_and_content(model):
    with pytest.raises(ValueError, match="must be a dict with role and content, got"):
        model.chat_prompt(["hello"])


def test_without_jinja_the_error_says_what_to_install(model, monkeypatch):
    original = builtins.__import__

    def without(name, *args, **named):
        if name.startswith("jinja2"):
            raise ImportError(name)
        return original(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install jinja2"):
        model.chat_prompt(MESSAGES)
