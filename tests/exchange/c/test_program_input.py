"""Exported programs refuse what they cannot use: one message, an exit code, nothing that leaks, and no NaN printed."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.exchange.c.compiled import STRICT
from tests.exchange.c.random_stacks import cell_stack
from tests.exchange.c.test_networks import network_of

from unspool.data.vocabulary import Characters, Words
from unspool.exchange.c.convert import write_c
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.reading import LONGEST_TEXT

SANITIZE = ("-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")


def build(folder: Path, network: Any, interface: Interface | None = None, *options: str) -> Path:
    """A program named `model`, which reports leaks."""
    written = write_c(network, "model", interface=interface, main=True)
    (folder / "model.c").write_text(written.code)
    (folder / "model.h").write_text(written.header)
    command = ["gcc", *STRICT, *SANITIZE, *options, str(folder / "model.c"), "-o", str(folder / "model"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return folder / "model"


def call(program: Path, text: str, *arguments: str) -> tuple[int, list[str], str]:
    """The exit code, the lines and the message of a program."""
    said = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=False)
    return said.returncode, said.stdout.splitlines(), said.stderr


def make_tagger() -> tuple[Any, Interface]:
    network, _, interface, _ = network_of("tag-1")
    words, letters = Words(["<unk>", *"abcdefgh"]), Characters(["<unk>", *"abcd"])
    return network, replace(interface, vocabulary=words, letters=letters, labels=("O", "B", "I"))


def make_translator() -> tuple[Any, Interface]:
    vocabulary, target = Characters(["<unk>", *"abcde"]), Characters(["<unk>", *"vwxyzu"])
    return network_of("translate-1")[0], Interface(vocabulary, target=target)


@pytest.mark.parametrize("make", [make_tagger, make_translator])
def test_lines_beyond_the_limit_are_refused(tmp_path: Path, make: Any) -> None:
    program = build(tmp_path, *make())
    code, lines, message = call(program, "a\n" + "a" * LONGEST_TEXT + "\na\n")
    assert (code, len(lines), message) == (0, 3, "")
    code, lines, message = call(program, "a\n" + "a" * 3_000_000 + "\na\n")
    assert (code, len(lines), message) == (1, 1, f"line 2 is longer than {LONGEST_TEXT} bytes\n")


def test_the_compiler_can_be_given_another_limit(tmp_path: Path) -> None:
    program = build(tmp_path, *make_tagger(), "-DMODEL_LINE_LIMIT=3")
    assert call(program, "a b\na b")[::2] == (0, "")
    assert call(program, "a b\na bc")[::2] == (1, "line 2 is longer than 3 bytes\n")


@pytest.mark.parametrize("case", ["classify-1", "regress-1", "regress-3", "stack"])
def test_what_is_no_finite_number_is_refused(tmp_path: Path, case: str) -> None:
    network, interface = (cell_stack(1), None) if case == "stack" else network_of(case)[::2]
    program = build(tmp_path, network, interface)
    good = " ".join(["0.5"] * 60)
    code, lines, message = call(program, f"{good}\n{good}, 1;2\t3\r\n3.4028235e38 -3.4028235e38 1e-60\n")
    assert "nan" not in "".join(lines) + message
    assert (code, len(lines)) in ((0, 3), (1, 2))  # numbers so large may overflow inside
    for bad in ("nan", "inf", "-INFINITY", "1e39", "3.4028236e38", "1e999", "a" * 3_000_000, "1 2 x"):
        code, lines, message = call(program, f"{good}\n{good} {bad} {good}\n{good}\n")
        assert (code, len(lines), message) == (1, 1, "line 2 has what is no finite number\n"), bad[:20]


@pytest.mark.parametrize(
    "arguments",
    [
        *(["abc"], ["-1"], ["99999999999999999999"], ["1000000001"], ["1.5"], [""], ["5x"]),
        *(["5", "abc"], ["5", "-1"], ["5", "nan"], ["5", "1e39"], ["5", "1 2"], ["5", ""]),
        *(["5", "1", "-1"], ["5", "1", "4294967296"], ["5", "1", "x"], ["5", "1", "1", "a", "b"]),
    ],
)
def test_arguments_of_a_generator(generator: Path, arguments: list[str]) -> None:
    code, lines, message = call(generator, "", *arguments)
    assert (code, lines) == (2, [])
    assert message.startswith("usage: ")
    assert "COUNT: 0 to 1000000000;" in message


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that generates text; good arguments are those of other tests."""
    program = build(
        tmp_path_factory.mktemp("generator"), network_of("language-9")[0], Interface(Characters(["<unk>", *"abcdefgh"]))
    )
    code, lines, message = call(program, "", "7", "0.5", "4294967295", "abc")
    assert (code, [*map(len, lines)], message) == (0, [7], "")
    return program
