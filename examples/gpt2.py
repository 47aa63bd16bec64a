"""Continue a text with GPT-2, from weights in a safetensors file.

The file uses the names under which GPT-2 is published (``wte.weight``,
``h.0.attn.c_attn.weight``). A text is given as token IDs::

    python -m examples.gpt2 model.safetensors --tokens 15496 11 995 --backend cpu
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plugrad as pg

Params = Mapping[str, pg.Tensor]
Past = tuple[pg.Tensor, ...]  # keys and values, alternately, of each layer


def load(path: Path) -> dict[str, pg.Tensor]:
    """Return the parameters by name, without the masks that some files contain."""
    named = {k.removeprefix("transformer."): x for k, x in pg.load(path).items()}
    masks = (".attn.bias", ".attn.masked_bias", "lm_head.weight")
    return {name: x for name, x in named.items() if not name.endswith(masks)}


def layers(params: Params) -> int:
    """Return the number of layers."""
    return sum(name.endswith("ln_1.weight") for name in params)


def dense(params: Params, name: str, x: pg.Tensor) -> pg.Tensor:
    """Apply a dense layer; GPT-2 stores its weights as ``[inputs, outputs]``."""
    rows = pg.reshape(x, (-1, x.shape[-1]))  # one matrix product
    y = rows @ params[f"{name}.weight"] + params[f"{name}.bias"]
    return pg.reshape(y, (*x.shape[:-1], y.shape[-1]))


def norm(params: Params, name: str, x: pg.Tensor) -> pg.Tensor:
    """Apply a layer norm."""
    return pg.layer_norm(x, params[f"{name}.weight"], params[f"{name}.bias"])


def split_heads(x: pg.Tensor, heads: int) -> pg.Tensor:
    """Return ``[batch, heads, length, size]``."""
    batch, length, width = x.shape
    x = pg.reshape(x, (batch, length, heads, width // heads))
    return pg.permute_dims(x, (0, 2, 1, 3))


def run(
    params: Params,
    codes: pg.Tensor,
    heads: int,
    past: Past = (),
    position: pg.Tensor | None = None,
) -> tuple[pg.Tensor, Past]:
    """Return the logits ``[batch, length, tokens]``, and the keys and values.

    With a past, ``codes`` is one token, at ``position`` in the text. The past has room
    for the whole text, so that ``jit`` sees the same shapes in each step. The keys and
    values of the token are written into it.
    """
    x = pg.take(params["wte.weight"], codes, axis=0)
    if position is None:
        x = x + params["wpe.weight"][: codes.shape[1]]
        mask = None
    else:
        positions = pg.arange(past[0].shape[2])
        x = x + pg.take(params["wpe.weight"], position, axis=0)
        mask = positions <= position
    new_past: list[pg.Tensor] = []
    for i in range(layers(params)):
        qkv = dense(params, f"h.{i}.attn.c_attn", norm(params, f"h.{i}.ln_1", x))
        q, k, v = (split_heads(y, heads) for y in pg.split(qkv, [x.shape[-1]] * 3, -1))
        if past:
            past[2 * i][:, :, position] = k[:, :, 0]
            past[2 * i + 1][:, :, position] = v[:, :, 0]
            k, v = past[2 * i : 2 * i + 2]
        new_past += [k, v]
        y = pg.scaled_dot_product_attention(q, k, v, mask=mask, is_causal=mask is None)
        y = pg.reshape(pg.permute_dims(y, (0, 2, 1, 3)), x.shape)
        x = x + dense(params, f"h.{i}.attn.c_proj", y)
        hidden = dense(params, f"h.{i}.mlp.c_fc", norm(params, f"h.{i}.ln_2", x))
        hidden = pg.gelu(hidden, approximate=True)
        x = x + dense(params, f"h.{i}.mlp.c_proj", hidden)
    x = norm(params, "ln_f", x)
    return pg.matmul(x, params["wte.weight"], transpose_b=True), tuple(new_past)


def generate(
    params: Params,
    tokens: Sequence[int],
    count: int,
    heads: int,
    choose: Callable[[pg.Tensor], int] = lambda logits: int(pg.argmax(logits)),
) -> list[int]:
    """Return the next tokens; ``choose`` picks each one from its logits."""
    length = len(tokens) + count
    context = params["wpe.weight"].shape[0]
    if not tokens or length > context:
        raise ValueError(
            f"generate: {len(tokens)} given + {count} new tokens; give at least 1, and "
            f"at most {context} in total"
        )

    def following(code: pg.Tensor, past: Past, position: pg.Tensor) -> Any:
        return run(params, code, heads, past, position)

    step = pg.jit(following)
    logits, past = run(params, pg.asarray([list(tokens)]), heads)
    padding = [(0, 0), (0, 0), (0, count), (0, 0)]
    past = tuple(pg.pad(x, padding) for x in past)
    generated = [choose(logits[0, -1])]
    for position in range(len(tokens), length - 1):
        logits, past = step(pg.asarray([generated[-1:]]), past, pg.asarray(position))
        generated.append(choose(logits[0, -1]))
    return generated


def main(arguments: list[str] | None = None) -> None:
    """Read the options, load the weights, and print the next tokens."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=[464])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--head-size", type=int, default=64, help="64 in GPT-2")
    parser.add_argument("--backend", default=pg.get_backend())
    given = parser.parse_args(arguments)
    with pg.use_backend(given.backend):
        params = load(given.weights)
        heads = params["wpe.weight"].shape[1] // given.head_size
        start = time.perf_counter()
        generated = generate(params, given.tokens, given.count, heads)
        seconds = time.perf_counter() - start
    print(*generated)
    print(f"{given.count / seconds:.1f} tokens a second, {given.backend}")


if __name__ == "__main__":
    main()
