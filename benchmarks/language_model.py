"""Train the model of ``examples/language_model.py`` in plugrad and in PyTorch.

All contestants get the same initial parameters, batches and learning rates. Each runs
in its own process; they take turns of a few steps, and the best turn counts. The losses
are compared::

    python benchmarks/language_model.py --backends cpu,cpu-eager,wasm --python PATH

``--python`` is an interpreter with PyTorch. A backend runs under ``pg.jit`` unless its
name ends in ``-eager``. A ratio is a contestant's tokens per second divided by those of
PyTorch: above 1, plugrad is faster. The column ``of CPU`` counts CPU time: use it on a
busy machine.

A longer run shows what the model learns: ``--turns 140 --backends cpu --out FOLDER``
writes the loss curves, and text sampled from the plugrad models, to a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import records
from optimizers import take_turn
from workloads import environment

sys.path.append(str(Path(__file__).parents[1]))  # for examples
STEPS_PER_TURN = 8
COMPARED_LOSSES = 5 * STEPS_PER_TURN  # the number of initial losses that must agree
Step = Callable[[int], float]  # step number -> loss
Sampler = Callable[[int], str]  # a number of characters -> text from the model


def prepare(folder: Path, shape: list[int], batch: int, steps: int) -> int:
    """Write parameters, batches and rates; return the number of tokens per step."""
    import plugrad as pg

    from examples import language_model as model

    size = model.Size(*shape)
    leaves = pg.tree.leaves(model.new_params(size, 0))
    characters = (batch * steps + 1) * size.context
    rows = np.random.default_rng(0).permutation(model.rows_of(size, characters))
    batches = rows[: len(rows) // batch * batch].reshape(-1, batch, size.context + 1)
    rate = model.rate_of(steps)
    rates = [float(rate(pg.asarray(n, dtype=pg.int32))) for n in range(steps)]
    np.savez(folder / "params.npz", *[x.numpy() for x in leaves])
    np.savez(folder / "data.npz", batches=batches, rates=rates, size=shape)
    return batch * size.context


# --- contestants -----------------------------------------------------------------


def plugrad_contestant(
    name: str, params: list[Any], data: Any, threads: int
) -> tuple[Step, Sampler]:
    """Return a training step on a backend, and a function that samples text."""
    import plugrad as pg
    import plugrad_train as pt

    from examples import language_model as model

    backend, _, eager = name.partition("-")
    pg.set_backend(backend)
    size = model.Size(*data["size"].tolist())
    batches = data["batches"]
    structure = pg.tree.structure(model.new_params(size, 0))
    loss = lambda params, codes: model.loss_of(params, codes, size.heads)
    optimizer = model.optimizer_of(len(data["rates"]))
    step = pt.train_step(loss, optimizer, jit=not eager, donate=True)
    tree = structure([pg.asarray(x) for x in params])
    state: Any = [tree, step.optimizer.init(tree)]

    def run(n: int) -> float:
        *state[:], value = step.run(*state, pg.asarray(batches[n % len(batches)]))
        return float(value.item())

    return run, lambda length: model.sample(state[0], size, length)


def torch_block(layer: Any, x: Any, heads: int) -> Any:
    """Return a layer of the transformer in PyTorch."""
    from torch.nn import functional as F

    down_b, down, n1, n2, out_b, out, qkv_b, qkv, up_b, up = layer
    batch, length, width = x.shape
    y = F.layer_norm(x, (width,), n1) @ qkv + qkv_b
    q, k, v = y.view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.transpose(1, 2).reshape(x.shape) @ out + out_b
    hidden = F.gelu(F.layer_norm(x, (width,), n2) @ up + up_b)
    return x + hidden @ down + down_b


def torch_contestant(
    name: str, params: list[Any], data: Any, threads: int
) -> tuple[Step, Sampler]:
    """Return an eager step of the same model in PyTorch; it samples no text."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    ours = [torch.tensor(x, requires_grad=True) for x in params]
    batches = torch.tensor(data["batches"]).long()
    rates = data["rates"]
    heads = int(data["size"][1])
    # plugrad.tree sorts the keys of dicts.
    characters, *rest, last, positions = ours
    layers = [rest[i : i + 10] for i in range(0, len(rest), 10)]
    groups = [
        {"params": [p for p in ours if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in ours if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, foreach=True)

    def run(n: int) -> float:
        codes = batches[n % len(batches)]
        x = F.embedding(codes[:, :-1], characters) + positions
        for layer in layers:
            x = torch_block(layer, x, heads)
        logits = F.layer_norm(x, last.shape, last) @ characters.T
        loss = F.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ours, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = float(rates[n])
        optimizer.step()
        return float(loss.item())

    return run, lambda length: ""


# --- turns -----------------------------------------------------------------------


def serve(name: str, folder: Path, threads: int, steps: int) -> None:
    """Take a turn for each line of input; print the fastest step and the losses.

    After the last turn, a line contains the number of characters to sample.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    with np.load(folder / "params.npz") as file:
        params = [file[key] for key in file.files]
    with np.load(folder / "data.npz") as file:
        data = {key: file[key] for key in file.files}
    contestant = torch_contestant if name == "torch" else plugrad_contestant
    step, sample = contestant(name, params, data, threads)
    for first in range(0, steps, STEPS_PER_TURN):
        sys.stdin.readline()
        times, losses = [], []
        for n in range(first, first + STEPS_PER_TURN):
            start = time.perf_counter(), time.process_time()
            losses.append(step(n))
            times.append(
                [time.perf_counter() - start[0], time.process_time() - start[1]]
            )
        print(
            json.dumps({"times": np.min(times, 0).tolist(), "losses": losses}),
            flush=True,
        )
    if length := sys.stdin.readline():
        print(json.dumps(sample(int(length))), flush=True)


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest step, in wall-clock and CPU time, and the losses."""
    names = [*filter(None, [args.peer]), *args.backends.split(",")]
    steps = args.turns * STEPS_PER_TURN
    with tempfile.TemporaryDirectory() as folder:
        tokens = prepare(Path(folder), args.size, args.batch, steps)
        processes = {}
        for name in names:
            python = args.python if name == "torch" else sys.executable
            command = [python, __file__, "--serve", name, "--folder", folder]
            command += ["--threads", str(args.threads), "--turns", str(args.turns)]
            processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(name, args.threads),
            )
        found: dict[str, Any] = {name: {"times": [], "losses": []} for name in names}
        for _ in range(args.turns):
            for name, process in processes.items():
                turn = json.loads(take_turn(process))
                found[name]["times"].append(turn["times"])
                found[name]["losses"] += turn["losses"]
        for name, process in processes.items():
            output = process.communicate(f"{args.sample}\n" if args.out else "")
            found[name]["sample"] = json.loads(output[0] or '""')
    for x in found.values():
        x["tokens"] = [tokens / t for t in np.min(x["times"], 0)]
        # Only the first losses are compared: rounding differences grow with the steps.
        compared = (
            x["losses"][:COMPARED_LOSSES],
            found[names[0]]["losses"][:COMPARED_LOSSES],
        )
        np.testing.assert_allclose(*compared, rtol=2e-2)
    return found


def write_results(found: dict[str, Any], folder: Path) -> None:
    """Write the losses and samples, and a drawing of the losses, to a folder."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "language_model.json").write_text(json.dumps(found))
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    for n, (name, x) in enumerate(found.items()):
        means = np.reshape(x["losses"], (-1, STEPS_PER_TURN)).mean(1)
        steps = STEPS_PER_TURN * np.arange(1, len(means) + 1)
        axes.plot(steps, means, label=name, lw=3 - n / 2, ls=("-", "--", ":")[n % 3])
    axes.set(xlabel="step", ylabel=f"loss, mean of {STEPS_PER_TURN} steps")
    axes.legend()
    figure.savefig(folder / "language_model.png", dpi=100)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="cpu,cpu-eager,wasm")
    parser.add_argument("--peer", default="torch", help="empty for none")
    parser.add_argument("--size", type=int, nargs=4, default=[4, 4, 128, 128])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--turns", type=int, default=5, help=f"of {STEPS_PER_TURN} steps"
    )
    parser.add_argument("--python", default=sys.executable, help="that has PyTorch")
    parser.add_argument("--out", type=Path, help="folder for curves and samples")
    records.add_option(parser)
    parser.add_argument("--sample", type=int, default=500, help="characters")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.serve:
        serve(args.serve, args.folder, args.threads, args.turns * STEPS_PER_TURN)
        return
    found = compare(args)
    print(f"{'':12}{'tokens/s':>10}{'ratio':>8}{'of CPU':>10}{'ratio':>8}  losses")
    first = next(iter(found.values()))["tokens"]
    for name, x in found.items():
        rates = zip(x["tokens"], first, strict=True)
        shown = "".join(f"{rate:10.0f}{rate / peer:8.2f}" for rate, peer in rates)
        print(f"{name:12}{shown}  {x['losses'][0]:.4f} {x['losses'][-1]:.4f}")
    if args.record:
        records.write(
            args.record,
            question="How many tokens per second does training of a model process?",
            threads=args.threads,
            unit="tokens/s",
            columns=["contestant", "tokens"],
            rows=[[name, x["tokens"][0]] for name, x in found.items()],
        )
    if args.out:
        write_results(found, args.out)
        for name, x in found.items():
            print(f"\n{name} writes:\n{x['sample']}" if x["sample"] else "")


if __name__ == "__main__":
    main()
