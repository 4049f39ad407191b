"""unspool generate: text from a trained language model."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.opening import open_generator
from unspool.cli.terminal import console
from unspool.decoding.sampling import Sampling
from unspool.errors import ArgumentError
from unspool.harmless import harmless
from unspool.tasks.text_generator import TextGenerator


def generate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    prompt: Annotated[str, typer.Option(help="The text to continue. Default: the start of a line.")] = "",
    count: Annotated[int, typer.Option(min=1, help="Number of tokens.")] = 500,
    temperature: Annotated[
        float, typer.Option(help="0: always the most likely token; 1: the model's probabilities; higher: more random.")
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k most likely tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the most likely tokens whose probabilities add up to p.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="Stop before this text (\\\\n: a new line, \\\\t: a tab). Repeat for more.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam search of this width instead of sampling.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed: the same seed gives the same text.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Number of samples.")] = 1,
    int8: Annotated[
        bool, typer.Option("--int8", help="Round the model's matrices to 8 bits: a quarter of the memory.")
    ] = False,
) -> None:
    """Continue a prompt with a language model; the text is printed as it is sampled.

    **Examples**

    - `unspool generate runs/book --prompt "The "`
    - `unspool generate runs/book --temperature 0.5 --seed 1 --count 2000 > more.txt`
    - `unspool generate runs/names --samples 20 --stop '\\n'`: twenty names
    - `unspool generate runs/book --prompt "To be" --beam 5 --count 40`: the most likely continuations
    - `unspool generate runs/book --top-k 20 --top-p 0.9`
    - `unspool generate runs/book --int8`: the model in a quarter of the memory
    """
    generator = open_generator(run, int8=int8)
    sampling = Sampling(temperature, top_k, top_p, banned=generator.banned)
    stops = [unescape(one) for one in stop or ()]
    _warn_of_unknown(generator, prompt)
    if beam is not None:
        _refuse_in_search(beam, (top_k, top_p, seed) != (None, None, None) or samples > 1 or len(stops) > 1)
        _print_beams(prompt, generator.search(prompt, count, beam, *stops))
        return
    for number in range(samples):
        own_seed = None if seed is None else seed + number
        _print_sample(prompt, generator.stream(prompt, count, sampling, own_seed, stops))


def _refuse_in_search(beam: int, asked: bool) -> None:
    if asked:
        problem = "is a search, and takes no --top-k, --top-p, --seed, --samples, and at most one --stop"
        raise ArgumentError.of("beam", beam, problem, "Leave them out, or --beam")


def _print_sample(prompt: str, pieces: Iterable[str]) -> None:
    """Print a text as it is sampled."""
    write(prompt)
    for piece in pieces:
        write(piece)
    write("\n")


def _print_beams(prompt: str, found: Iterable[tuple[float, str]]) -> None:
    for score, text in found:
        console().print(f"{score:9.2f}  {harmless(prompt + text)}", soft_wrap=True)


def _warn_of_unknown(generator: TextGenerator, prompt: str) -> None:
    if foreign := generator.unknown_characters(prompt):
        said = ", ".join(map(repr, foreign[:10]))
        console(error=True).print(f"the model has never seen {said}: they are read as unknown", soft_wrap=True)


def write(text: str) -> None:
    """At once, and what the terminal's encoding has not as a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def unescape(text: str) -> str:
    r"""The text with \n, \t and \\ as what they stand for; all else as it is."""
    return re.sub(r"\\([nt\\])", lambda found: {"n": "\n", "t": "\t", "\\": "\\"}[found[1]], text)
