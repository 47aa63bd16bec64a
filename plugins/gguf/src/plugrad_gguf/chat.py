"""Renders messages with a chat template, in the format that a model was trained on."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from plugrad.importing import printable

__all__ = ["Message", "render"]

Message: TypeAlias = Mapping[str, Any]


def render(
    template: object, messages: Sequence[Any], bos: str, eos: str, reply: bool
) -> str:
    """Return messages as text.

    Args:
        template: ``tokenizer.chat_template`` of the file, a Jinja template. It runs in
            a sandbox, because the file is not trusted.
        messages: Dicts with ``role`` ("system", "user", "assistant") and ``content``.
        bos: The name of the token that begins a text.
        eos: The name of the token that ends a text.
        reply: Whether to append the text that introduces the model's reply.

    Raises:
        ImportError: Jinja is not installed.
        ValueError: There is no template, or it fails.

    """
    if not isinstance(template, str):
        raise ValueError(
            "chat: the file has no chat template; write the prompt as the model card "
            "says, and use generate"
        )
    for message in messages:
        if not isinstance(message, Mapping) or not {"role", "content"} <= {*message}:
            raise ValueError(
                f"chat: a message must be a dict with role and content, got {message!r}"
            )
    environment = _make_environment()
    values: dict[str, Any] = {"messages": [dict(x) for x in messages], "bos_token": bos}
    values |= {"eos_token": eos, "add_generation_prompt": reply}
    try:
        return str(environment.from_string(template).render(values))
    except Exception as error:  # the template may raise any exception
        raise ValueError(
            f"chat: the template of the file failed: {type(error).__name__}: "
            f"{printable(str(error))}; check the roles and their order, or write the "
            "prompt yourself"
        ) from None


def _make_environment() -> Any:
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ImportError(
            "chat: chat templates need the package jinja2: pip install jinja2"
        ) from None
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals |= {"raise_exception": _fail, "strftime_now": time.strftime}
    environment.filters["tojson"] = _to_json
    return environment


def _fail(message: object) -> NoReturn:
    raise ValueError(str(message))


def _to_json(value: Any, indent: int | None = None) -> str:
    """Return JSON without the escapes for HTML that Jinja adds."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
