"""Train a small transformer on the documentation strings of Python's library.

The model predicts the next character. After Ctrl-C, start the program again to continue
the training::

    python -m examples.language_model --steps 2000 --backend cpu
"""

import argparse
import ast
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
import plugrad_train as pt

CHARACTERS = 128  # in ASCII


class Size(NamedTuple):
    """The size of a model: layers, heads, and the lengths of vectors and texts."""

    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 128


def text(max_characters: int | None = None) -> bytes:
    """Return the documentation strings in ASCII, in the order of the files."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_bytes()))]
        docs = [ast.get_docstring(node) for node in nodes if isinstance(node, kinds)]
        found += filter(None, docs)
        if max_characters is not None and sum(map(len, found)) > max_characters:
            break
    return "\n\n".join(found).encode("ascii", "ignore")[:max_characters]


def new_params(size: Size, seed: int) -> Any:
    """Return random parameters, scaled as in GPT-2 (Radford et al., 2019)."""
    keys = iter(pg.random.split(pg.random.key(seed), 2 + 4 * size.layers))
    n = size.width
    output_stddev = 0.02 / (2 * size.layers) ** 0.5

    def normal(rows: int, columns: int, stddev: float = 0.02) -> pg.Tensor:
        return pg.random.normal((rows, columns), stddev=stddev, seed=next(keys))

    shapes = {"qkv": (n, 3 * n, 0.02), "out": (n, n, output_stddev)}
    shapes |= {"up": (n, 4 * n, 0.02), "down": (4 * n, n, output_stddev)}
    layers = []
    for _ in range(size.layers):
        layer: Any = {"norms": [pg.ones(n), pg.ones(n)]}
        for name, (rows, columns, stddev) in shapes.items():
            layer[name] = {"w": normal(rows, columns, stddev), "b": pg.zeros(columns)}
        layers.append(layer)
    embedding = {"characters": normal(CHARACTERS, n), "norm": pg.ones(n)}
    return embedding | {"positions": normal(size.context, n), "layers": layers}


def dense(layer: Any, x: pg.Tensor) -> pg.Tensor:
    """Apply a dense layer to ``x``."""
    return x @ layer["w"] + layer["b"]


def block(layer: Any, x: pg.Tensor, heads: int) -> pg.Tensor:
    """Apply a transformer layer: attention, then a dense network at each position."""
    batch, length, width = x.shape
    qkv = dense(layer["qkv"], pg.layer_norm(x, layer["norms"][0]))
    qkv = pg.reshape(qkv, (batch, length, 3, heads, width // heads))
    q, k, v = pg.unstack(pg.permute_dims(qkv, (2, 0, 3, 1, 4)))
    mixed = pg.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + dense(
        layer["out"], pg.reshape(pg.permute_dims(mixed, (0, 2, 1, 3)), x.shape)
    )
    hidden = pg.gelu(dense(layer["up"], pg.layer_norm(x, layer["norms"][1])))
    return x + dense(layer["down"], hidden)


def logits_of(params: Any, codes: pg.Tensor, heads: int) -> pg.Tensor:
    """Return the logits ``[batch, length, CHARACTERS]`` of the next characters."""
    x = pg.take(params["characters"], codes, axis=0)
    x = x + params["positions"][: codes.shape[1]]
    for layer in params["layers"]:
        x = block(layer, x, heads)
    return pg.layer_norm(x, params["norm"]) @ params["characters"].mT


def loss_of(params: Any, codes: pg.Tensor, heads: int) -> pg.Tensor:
    """Return the mean cross-entropy of the next characters of each row."""
    logits = logits_of(params, codes[:, :-1], heads)
    logits = pg.astype(logits, pg.float32, copy=False)
    return pg.losses.sparse_softmax_cross_entropy(codes[:, 1:], logits)


def rows_of(size: Size, max_characters: int | None) -> Any:
    """Return the text as rows of codes, each row with one more code to predict."""
    codes = np.frombuffer(text(max_characters), np.uint8).astype(np.int32)
    starts = np.arange((len(codes) - 1) // size.context) * size.context
    return codes[starts[:, None] + np.arange(size.context + 1)]


def rate_of(steps: int) -> Any:
    """Return the schedule of the learning rate."""
    return pt.schedules.warmup(pt.schedules.cosine(1e-3, max(1, steps - 50), 1e-4), 50)


def optimizer_of(steps: int) -> pt.Optimizer:
    """Return AdamW with clipped gradients; only matrices decay."""
    matrices = lambda params: pg.tree.map(lambda p: p.ndim > 1, params)
    adamw = pt.adamw(rate_of(steps), weight_decay=0.1, mask=matrices)
    return pt.chain(pt.clip_by_global_norm(1.0), adamw)


def fit(
    size: Size, steps: int, batch: int, max_characters: int | None, **options: Any
) -> Any:
    """Train; return the result of ``plugrad_train.fit``."""
    loss = lambda params, codes: loss_of(params, codes, size.heads)
    batches = pt.Prefetch(pt.Batches(rows_of(size, max_characters), batch, shuffle=0))
    params = new_params(size, 0)
    optimizer = optimizer_of(steps)
    return pt.fit(loss, params, optimizer, batches, steps=steps, **options)


def sample(params: Any, size: Size, length: int, temperature: float = 0.8) -> str:
    """Return text that the model writes after a line break."""
    codes = [ord("\n")]
    predict = pg.jit(lambda params, codes: logits_of(params, codes, size.heads))
    for step in range(length):
        recent = codes[-size.context :]
        padded = np.asarray([recent + [0] * (size.context - len(recent))], np.int32)
        logits = predict(params, pg.asarray(padded))[:, len(recent) - 1] / temperature
        codes.append(int(pg.random.multinomial(logits, 1, seed=step)))
    return bytes(codes[1:]).decode("ascii")


def main(arguments: list[str] | None = None) -> None:
    """Read the options, train, and print a sample."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument(
        "--characters", type=int, help="number of characters of the text to use"
    )
    parser.add_argument("--size", type=int, nargs=4, default=Size(), help="see Size")
    parser.add_argument("--backend", default=pg.get_backend())
    parser.add_argument("--precision", choices=["float16", "bfloat16"])
    parser.add_argument("--out", type=Path, default=Path("out/language_model"))
    given = parser.parse_args(arguments)
    size = Size(*given.size)
    batch = given.batch
    out = given.out
    options: Any = {"checkpoints": pt.Checkpoints(out), "log": out / "log.jsonl"}
    with pg.use_backend(given.backend):
        options |= {"resume": True, "progress": True, "precision": given.precision}
        fitted = fit(size, given.steps, batch, given.characters, **options)
        print(sample(fitted.params, size, 500))
    if fitted.history:  # empty if the training was already complete
        first, last = fitted.history[0], fitted.history[-1]
        speed = (last["step"] - first["step"]) * batch * size.context
        speed /= max(last["seconds"] - first["seconds"], 1e-9)
        print(f"loss {last['loss']:.3f}; {speed:.0f} tokens a second, {given.backend}")


if __name__ == "__main__":
    main()
