"""Small vocabularies, as functions that add them to a GGUFWriter."""

from gguf import TokenType

PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = [value for value in range(256) if value not in PLAIN]
LETTERS = {value: chr(value) for value in PLAIN}
LETTERS |= {value: chr(256 + i) for i, value in enumerate(OTHERS)}
# Merges by priority: "h e" comes before "t he", as in real vocabularies.
MERGES = ["h e", "t he", "Ġ the", "l l", "o w", "Ġ w", "1 2", "12 3", "Ã ¶"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{{ message['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def bytelevel(pre="gpt-2", template=TEMPLATE, merges=MERGES, **settings):
    """Return a function that adds bytes, merges, special and user-defined tokens."""

    def add(writer):
        tokens = [LETTERS[value] for value in range(256)]
        tokens += [merge.replace(" ", "") for merge in merges]
        kinds = [TokenType.NORMAL] * len(tokens)
        writer.add_tokenizer_model("gpt2")
        if pre is not None:
            writer.add_tokenizer_pre(pre)
        kinds += [TokenType.CONTROL] * len(SPECIAL) + [TokenType.USER_DEFINED]
        tokens += [*SPECIAL, "  tab  "]
        writer.add_token_list(tokens)
        writer.add_token_types(kinds)
        writer.add_token_merges(merges)
        writer.add_bos_token_id(tokens.index("<|im_start|>"))
        writer.add_eos_token_id(tokens.index("<|im_end|>"))
        for name, value in settings.items():
            getattr(writer, name)(value)
        if template is not None:
            writer.add_chat_template(template)

    return add


# Pieces with scores; "▁" is a space.
PIECES = {
    "▁": -1.0,
    "h": -20.0,
    "e": -21.0,
    "l": -22.0,
    "o": -23.0,
    "▁h": -4.0,
    "ll": -3.0,
    "he": -2.0,
    "▁hello": -9.0,
    "hell": -7.0,
    "▁hell": -6.0,
    "llo": -8.0,
    "▁he": -5.0,
}


def sentencepiece(pieces=PIECES, **settings):
    """Return a function that adds ``<unk>``, ``<s>``, ``</s>``, bytes and pieces."""

    def add(writer):
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
        kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
        kinds += [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(pieces)
        writer.add_tokenizer_model("llama")
        writer.add_token_list([*tokens, *pieces])
        writer.add_token_scores([0.0] * len(tokens) + [*pieces.values()])
        writer.add_token_types(kinds)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        for name, value in settings.items():
            getattr(writer, name)(value)

    return add
