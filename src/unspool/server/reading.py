"""Reading: what requests give a model, as the model reads it; too much is refused before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.server.models import ServedModel
from unspool.server.refusals import RefusalError, unusable
from unspool.server.waiting import LARGE, aside, count


async def encode(model: ServedModel, given: Any, most: int) -> Any:
    """What a session reads, one step after the other.

    Raises:
        RefusalError: 422: there are more than `most` steps. A text that must have more is not read.
    """
    if isinstance(given, str):
        _check_steps(model.player.fewest_tokens(given), most, "or more ")
    inputs = await aside(count(given), model.player.encode, given)
    _check_steps(len(getattr(inputs, "ids", inputs)), most)
    return inputs


def _check_steps(steps: int, most: int, more: str = "") -> None:
    if steps > most:
        message = f"`input` has {steps:,} {more}tokens or steps; {most:,} are allowed. Feed it in parts."
        raise unusable(message, "input", "too_many_tokens")


async def read_prompts(model: ServedModel, given: Sequence[Any], most: int) -> list[list[int]]:
    """The ids of prompts, each a text or ids.

    Raises:
        RefusalError: 422: they have more than `most` tokens, or ids that the model does not have.
    """
    fewest = sum(model.player.fewest_tokens(one) if isinstance(one, str) else len(one) for one in given)
    if fewest > most:
        raise too_many_tokens(fewest, most, "or more ")
    known, generator = model.player.tokens, model.player.generator()
    for number, one in enumerate(given):
        if not isinstance(one, str) and max(one) >= known:
            place = next(place for place, token in enumerate(one) if token >= known)
            where = f"prompt[{number}][{place}]" if len(given) > 1 else f"prompt[{place}]"
            message = f"`{where}` (={one[place]}) is not an id of the vocabulary, which has {known:,} tokens."
            raise unusable(message, "prompt")

    def read() -> list[list[int]]:
        return [generator.prompt(one) if isinstance(one, str) else list(one) for one in given]

    # a model of lines, or one without a prompt, writes a line before the text
    writes = generator.lines or "" in given
    return await aside(LARGE + 1 if writes else count(list(given)), read)


def too_many_tokens(total: int, most: int, more: str = "") -> RefusalError:
    """That a request for completions has too many tokens."""
    message = f"The request has {total:,} {more}tokens, prompts and completions together; {most:,} are allowed."
    return unusable(message, "max_tokens", "too_many_tokens")
