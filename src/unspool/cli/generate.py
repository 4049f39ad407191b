"""unspool generate: what a trained model says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.terminal import console
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
        list[str] | None, typer.Option(help="End before this text (\\n is a new line). Repeat for more.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="The likeliest continuations, searched so many wide.")] = None,
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
    stops = [
        one.encode().decode("unicode_escape").encode("latin-1", "ignore").decode() if "\\" in one else one
        for one in stop or ()
    ]
    if beam is not None:
        for score, text in speaker.likeliest(prompt, count, beam):
            console().print(
                f"{score:9.2f}  {prompt}{text!r}" if "\n" in text else f"{score:9.2f}  {prompt}{text}", soft_wrap=True
            )
        return
    for number in range(samples):
        sys.stdout.write(prompt)
        for piece in speaker.stream(prompt, count, sampling, None if seed is None else seed + number, stops):
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
