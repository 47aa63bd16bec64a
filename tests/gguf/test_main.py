"""The command ``python -m plugrad_gguf``."""

import io
import re
import subprocess
import sys

import pytest
from plugrad_gguf import load
from plugrad_gguf.__main__ import main

from tests.gguf.files import tiny
from tests.gguf.vocabularies import bytelevel


@pytest.fixture
def path(tmp_path):
    return str(tiny(tmp_path, vocabulary=bytelevel(), seed=3).path)


def test_generate_prints_the_text_and_the_speed(path, backend, capsys):
    command = ["generate", path, "--prompt", "the low", "--backend", backend]
    assert main([*command, "--max-tokens", "9"]) == 0
    out, err = capsys.readouterr()
    text = load(path, backend=backend).generate("the low", max_tokens=9)
    shown = "".join(
        x if x.isprintable() or x in "\n\t" else x.encode("unicode_escape").decode()
        for x in text
    )
    assert out == f"the low{shown}\n"
    found = re.fullmatch(
        r"\[(\d+) tokens, ([\d.]+) tokens/s; prompt of 4 tokens in [\d.]+ s; "
        r"ended by: (length|end)\]\n",
        err,
    )
    assert found, err
    assert float(found[2]) > 0


def test_chat_answers_each_line_with_the_whole_conversation(path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("the\n\nlow\n"))
    command = ["chat", path, "--system", "s", "--max-tokens", "3", "--seed", "1"]
    assert main([*command, "--temperature", "0.5", "--top-k", "9"]) == 0
    out, err = capsys.readouterr()
    prompts = [int(n) for n in re.findall(r"prompt of (\d+) tokens", err)]
    assert len(prompts) == 2
    assert prompts[1] > prompts[0] + 10
    assert out


def test_errors_are_one_line_without_a_traceback(path, capsys):
    assert main(["generate", f"{path}.missing", "--prompt", "a"]) == 1
    assert "No such file" in capsys.readouterr().err
    assert main(["generate", path, "--prompt", ""]) == 1
    assert "generate: the text has 0 tokens" in capsys.readouterr().err
    assert main(["generate", path, "--prompt", "a", "--backend", "none"]) == 1
    assert "none" in capsys.readouterr().err


def test_the_package_is_a_command(path):
    command = [sys.executable, "-m", "plugrad_gguf", "generate", path]
    done = subprocess.run(
        [*command, "--prompt", "the", "--max-tokens", "2"], capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"the")
