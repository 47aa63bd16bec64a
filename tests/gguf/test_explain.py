"""Gradients of a logit, compared with finite differences in NumPy, and steering."""

import gguf
import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest
from plugrad_gguf import TokenScores, load

from tests.gguf import reference
from tests.gguf.files import tiny
from tests.gguf.vocabularies import bytelevel

STEP = 1e-5  # the step of finite differences in float64
TOKENS = [17, 250, 3, 3, 99]
ANSWER = 120
Q4_1 = gguf.GGMLQuantizationType.Q4_1


@pytest.fixture
def made(tmp_path):
    return tiny(tmp_path, vocabulary=bytelevel(), tokens=269, tied=False, seed=5)


def differences(made, direction):
    """Return the derivative of the logit along a direction of one embedding."""
    x = np.float64(made.arrays["token_embd.weight"][TOKENS])
    logit = lambda x: reference.logits(made, x=x)[-1, ANSWER]
    found = []
    for i in range(len(TOKENS)):
        move = np.zeros_like(x)
        move[i] = direction(x, i)
        found.append((logit(x + STEP * move) - logit(x - STEP * move)) / (2 * STEP))
    return np.array(found)


def test_scores_are_derivatives_along_the_embeddings(made, backend):
    found = load(made.path).explain(TOKENS, [ANSWER])
    wanted = differences(made, lambda x, i: x[i])
    np.testing.assert_allclose(found.scores, wanted, rtol=1e-3, atol=1e-3)
    assert abs(wanted).max() > 0.1
    assert found.logit == pytest.approx(
        reference.logits(made, TOKENS)[-1, ANSWER], abs=1e-3
    )


def test_norms_are_lengths_of_gradients(made):
    found = load(made.path, backend="cpu").explain(TOKENS, [ANSWER])
    width = made.sizes["width"]
    axes = [differences(made, lambda x, i, j=j: np.eye(width)[j]) for j in range(width)]
    np.testing.assert_allclose(found.norms, np.linalg.norm(axes, axis=0), rtol=1e-3)


def test_probabilities_are_those_of_the_answer(made):
    model = load(made.path, backend="cpu")
    found = model.explain("the low", "w")
    logits = reference.logits(made, model.tokenizer.encode("the low"))[-1]
    chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    (code,) = model.tokenizer.encode("w")
    assert found.probability == pytest.approx(chances[code], rel=1e-3)
    assert (found.tokens, found.answer) == (("the", " ", "l", "ow"), "w")


def test_logits_of_embeddings(made, backend):
    model = load(made.path)
    x = model.embeddings(TOKENS)
    assert x.shape == (len(TOKENS), made.sizes["width"])
    assert model.logits(x).tolist() == model.logits(TOKENS).tolist()
    gradient = pg.grad(lambda x: model.logits(x)[-1, ANSWER])(x)
    scores = pg.sum(gradient * x, axis=-1)
    wanted = model.explain(TOKENS, [ANSWER]).scores
    np.testing.assert_allclose(scores.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "x",
    [pg.zeros((5, 63)), pg.zeros((0, 64)), pg.zeros((65, 64)), pg.zeros(64)],
    ids=["width", "none", "too many", "rank"],
)
def test_other_embeddings_are_refused(x, made):
    with pytest.raises(ValueError, match="logits: embeddings must be floating, "):
        load(made.path, backend="cpu").logits(x)


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.F32, Q4_1], ids=str)
def test_relevance_is_conserved_by_attn_lrp(kind, tmp_path, backend):
    made = tiny(tmp_path, kind=kind, vocabulary=bytelevel())
    model = load(made.path)
    found = attr.attribute(
        lambda x: model.logits(x[0])[-1:],
        model.embeddings(TOKENS)[None],
        attr.AttnLRP(),
        target=ANSWER,
        ledger=True,
    )
    ledger = found.ledger
    assert found.input.shape == (1, len(TOKENS), made.sizes["width"])
    assert ledger.value == pytest.approx(model.logits(TOKENS)[-1, ANSWER].item())
    assert abs(ledger.unexplained) < 1e-4 * abs(ledger.value)
    parts = ledger.input + ledger.constants + ledger.softmax
    assert parts == pytest.approx(ledger.value, rel=1e-2)


def test_gradients_can_be_overridden(made):
    model = load(made.path, backend="cpu")
    plain = model.explain(TOKENS, [ANSWER])
    with pg.override_gradient("Multiply", a=lambda dy: 0.0 * dy):
        changed = model.explain(TOKENS, [ANSWER])
    assert changed.logit == plain.logit
    assert changed.scores != plain.scores


def test_layers_run_in_scopes(made):
    model = load(made.path, backend="cpu")
    with pg.profile() as profile:
        plain = model.explain(TOKENS, [ANSWER])
    parts = {f"blk.{i}/{part}" for i in (0, 1) for part in ("attention", "mlp")}
    assert parts <= {record.scope for record in profile.records}
    found = [plain.scores]
    for where in ("blk.0", "blk.1/mlp", "blk.9"):
        with pg.override_gradient("Multiply", a=lambda dy: 0.0 * dy, where=where):
            found.append(model.explain(TOKENS, [ANSWER]).scores)
    assert found[0] == found[3]
    assert len({*found}) == 3


SCORES = TokenScores(("a\n", "<b>", "\x1b"), "c", 2.0, 0.5, (1.0, -0.5, 0.0), (3, 2, 1))


def test_scores_are_shown_as_a_table():
    assert repr(SCORES).splitlines() == [
        "'c' has the logit 2, p = 0.5",
        "token      score      norm",
        r"'a\n'          1         3 ++++++++++++++++++++",
        "'<b>'       -0.5         2 ----------",
        r"'\x1b'         0         1",
    ]


def test_a_notebook_shows_colored_tokens():
    text = SCORES._repr_html_()
    assert text.count("<span ") == 3
    assert "rgba(70, 160, 90, 0.600)" in text
    assert "rgba(215, 90, 75, 0.300)" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "<table" in text


@pytest.mark.parametrize(
    ("prompt", "answer", "message"),
    [("", "a", "has 0 tokens"), ("a", "", "has 0 tokens"), ("a", [300], "no token")],
)
def test_wrong_prompts_and_answers(prompt, answer, message, made):
    with pytest.raises(ValueError, match=f"explain: .*{message}"):
        load(made.path).explain(prompt, answer)


# --- steering --------------------------------------------------------------------


def test_steering_adds_vectors_after_layers(made, backend):
    model = load(made.path)
    rng = np.random.default_rng(1)
    first, second, last = rng.normal(size=(3, made.sizes["width"])).astype("float32")
    plain = model.logits(TOKENS).numpy()
    with model.steering(0, first), model.steering(0, pg.asarray(second)):
        with model.steering(-1, last):
            found = model.logits(TOKENS).numpy()
        steered = {0: np.float64(first) + second}
        inner = model.logits(TOKENS).numpy()
    wanted = reference.logits(made, TOKENS, steering={**steered, 1: last})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
    wanted = reference.logits(made, TOKENS, steering=steered)
    np.testing.assert_allclose(inner, wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(model.logits(TOKENS).numpy(), plain)


def test_steering_changes_text_and_explanations(made):
    model = load(made.path, backend="cpu")
    vector = 5.0 * np.random.default_rng(2).normal(size=made.sizes["width"])
    plain = model.stream(TOKENS, max_tokens=8)
    list(plain)
    with model.steering(1, vector):
        steered = model.stream(TOKENS, max_tokens=8)
        scores = model.explain(TOKENS, [ANSWER])
    list(steered)  # a stream keeps its steering vector after the block
    found = [*TOKENS]
    for code in steered.tokens:
        logits = reference.logits(made, found, steering={1: np.float32(vector)})[-1]
        assert code == logits.argmax()
        found.append(code)
    assert len(found) > len(TOKENS)
    assert steered.tokens != plain.tokens
    assert scores.logit != model.explain(TOKENS, [ANSWER]).logit


@pytest.mark.parametrize(
    ("layer", "vector", "message"),
    [
        (2, np.zeros(64), "there is no layer 2; the model has 2"),
        (0, np.zeros(3), r"the vector must be float32\[64\], got float64\[3\]"),
        (0, ["a"] * 64, r"the vector must be float32\[64\]"),
    ],
)
def test_wrong_vectors(layer, vector, message, made):
    model = load(made.path)
    with (
        pytest.raises(ValueError, match=f"steering: {message}"),
        model.steering(layer, vector),
    ):
        pass
