"""The command ``python -m plugrad_gguf``: text and conversations in a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

import plugrad as pg

from .generate import Stream
from .model import Model, load

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status."""
    given = _make_parser().parse_args(arguments)
    try:
        model = load(given.model, backend=given.backend, rounded=given.rounded)
        return (
            _chat(model, given) if given.command == "chat" else _generate(model, given)
        )
    except (OSError, ValueError, ImportError, pg.BackendUnavailable) as error:
        print(f"plugrad_gguf: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m plugrad_gguf", description="Run a language model in a GGUF file."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    chat = commands.add_parser("chat", help="have a conversation with a chat model")
    generate = commands.add_parser("generate", help="continue a text")
    for command in (chat, generate):
        command.add_argument("model", help="the GGUF file")
        command.add_argument("--backend", help="by default, the best one installed")
        command.add_argument(
            "--rounded",
            action="store_true",
            help="round inputs of products: faster, less exact",
        )
        command.add_argument("--max-tokens", type=int, default=256)
        command.add_argument("--temperature", type=float, default=0.0)
        command.add_argument("--top-k", type=int)
        command.add_argument("--top-p", type=float)
        command.add_argument("--seed", type=int)
        command.add_argument("--stop", action="append", default=[])
    chat.add_argument("--system", help="the system message of the conversation")
    generate.add_argument("--prompt", required=True)
    return parser


def _generate(model: Model, given: argparse.Namespace) -> int:
    """Continue a prompt."""
    stream = _start(model, given.prompt, given)
    print(given.prompt, end="", flush=True)
    _show(stream)
    return 0


def _chat(model: Model, given: argparse.Namespace) -> int:
    """Answer each line of the input, until it ends."""
    messages = []
    if given.system:
        messages.append({"role": "system", "content": given.system})
    given.context = model.new_context()
    for line in _lines():
        messages.append({"role": "user", "content": line})
        text = _show(_start(model, model.chat_prompt(messages), given))
        messages.append({"role": "assistant", "content": text})
    return 0


def _lines() -> Iterable[str]:
    """Prompt for lines of input, and yield those that are not empty."""
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _start(model: Model, prompt: str, given: argparse.Namespace) -> Stream:
    return model.stream(
        prompt,
        max_tokens=given.max_tokens,
        temperature=given.temperature,
        top_k=given.top_k,
        top_p=given.top_p,
        seed=given.seed,
        stop=given.stop,
        context=getattr(given, "context", None),
    )


def _show(stream: Stream) -> str:
    """Print a text as it is generated, then the speed; return the text."""
    pieces = []
    for piece in stream:
        pieces.append(piece)
        print(_visible(piece), end="", flush=True)
    print(flush=True)
    count = max(len(stream.tokens) - 1, 0)  # the first is part of the prompt time
    speed = count / stream.seconds if stream.seconds else 0.0
    print(
        f"[{len(stream.tokens)} tokens, {speed:.1f} tokens/s; prompt of "
        f"{len(stream.prompt_tokens)} tokens in {stream.prompt_seconds:.2f} s; "
        f"ended by: {stream.reason}]",
        file=sys.stderr,
    )
    return "".join(pieces)


def _visible(text: str) -> str:
    """Escape control characters, which a model could use to control the terminal."""
    return "".join(
        x if x.isprintable() or x in "\n\t" else x.encode("unicode_escape").decode()
        for x in text
    )


if __name__ == "__main__":
    sys.exit(main())
