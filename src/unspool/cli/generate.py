"""unspool generate: what a trained model says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.sample import harmless
from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.tasks.generation import Sampling
from unspool.tasks.speaker import Speaker


def generate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `unspool train` made.")],
    prompt: Annotated[str, typer.Option(help="The text to go on from; a new line if not said.")] = "",
    count: Annotated[int, typer.Option(min=1, help="How many tokens.")] = 500,
    temperature: Annotated[
        float, typer.Option(help="0 always takes the likeliest; 1 as the model has it; more is wilder.")
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Choose among so many likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Choose among the likeliest that make up this share.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="End before this text (\\\\n: a new line, \\\\t: a tab). Repeat for more.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Draw nothing: search the likeliest, so many wide.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed says the same.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many times.")] = 1,
) -> None:
    """Let a language model go on from a prompt; the text comes as it is sampled.

    **Examples**

    - `unspool generate runs/book --prompt "The "`
    - `unspool generate runs/book --temperature 0.5 --seed 1 --count 2000 > more.txt`
    - `unspool generate runs/names --samples 20 --stop '\\n'`: twenty names
    - `unspool generate runs/book --prompt "To be" --beam 5 --count 40`: the likeliest ways on
    - `unspool generate runs/book --top-k 20 --top-p 0.9`
    """
    speaker = Speaker.load(run)
    sampling = Sampling(temperature, top_k, top_p, banned=speaker.silent)
    stops = [unescape(one) for one in stop or ()]
    if foreign := speaker.foreign(prompt):
        said = ", ".join(map(repr, foreign[:10]))
        console(error=True).print(f"the model has never read {said}: what follows is a guess", soft_wrap=True)
    if beam is not None:
        if top_k is not None or top_p is not None or seed is not None or samples > 1 or len(stops) > 1:
            problem = "searches, and takes no --top-k, --top-p, --seed, --samples, and one --stop at most"
            raise ArgumentError.of("beam", beam, problem, "Leave them out, or --beam")
        for score, text in speaker.likeliest(prompt, count, beam, *stops):
            console().print(f"{score:9.2f}  {harmless(prompt + text)}", soft_wrap=True)
        return
    for number in range(samples):
        pieces = speaker.stream(prompt, count, sampling, None if seed is None else seed + number, stops)
        write(prompt)
        for piece in pieces:
            write(piece)
        write("\n")


def write(text: str) -> None:
    """At once, and what the terminal's encoding has not as a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def unescape(text: str) -> str:
    r"""The text with \n, \t and \\ as what they stand for; all else as it is."""
    return re.sub(r"\\([nt\\])", lambda found: {"n": "\n", "t": "\t", "\\": "\\"}[found[1]], text)
