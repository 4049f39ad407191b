"""Text out of a language model: sampling, beam search, and a stream of ids as text that is safe to print."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError
from unspool.nn.layer import map_leaves

ROUNDING = 1e-12  # of a sum of probabilities: eight tokens of 0.1 reach 0.8, which their sum in floating point does not


class Predictor(Protocol):
    """A language model as generation sees it; whoever generates puts it in eval mode."""

    def predict(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits (rows, vocabulary) of the token after the last of `ids` (time, rows), and the new state.

        `ids` are 64-bit numbers on the CPU. The state is any nesting of tuples and lists of tensors whose first axis
        is the rows; None is the state before the first token.
        """
        ...


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn from logits: at a temperature, among the likeliest, and never a banned one.

    - `temperature` divides the logits; at 0 the likeliest token is certain.
    - `top_k` keeps that many of the likeliest tokens.
    - `top_p` keeps, of those, the fewest likeliest ones that together have at least this probability.
    - `banned` ids never come out, and do not count among the likeliest.

    Of tokens that are equally likely the one with the lower id comes first.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (_is_number(self.temperature) and self.temperature >= 0):
            remedy = "Give 1 for the model's own probabilities, 0 for the likeliest token"
            raise ArgumentError.of("temperature", self.temperature, "is not a number from 0 on", remedy)
        if self.top_k is not None:
            check_size("top_k", self.top_k)
        if self.top_p is not None and not (_is_number(self.top_p) and 0 < self.top_p <= 1):
            remedy = "Give a number above 0 and up to 1, such as top_p=0.9"
            raise ArgumentError.of("top_p", self.top_p, "is not a probability above 0", remedy)
        _check_ids("banned", self.banned)

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each token (rows, vocabulary), in float64 on the CPU."""
        logits = _without(_check_logits(logits), self.banned)
        highest = logits.amax(-1, keepdim=True)
        if (highest == -math.inf).any():
            raise ArgumentError.of("banned", self.banned, "leaves no token that is possible", "Ban fewer")
        if self.temperature == 0:
            return torch.zeros_like(logits).scatter_(1, logits.argmax(-1, keepdim=True), 1.0)
        p = ((logits - highest) / self.temperature).softmax(-1)  # no temperature sends the highest one to infinity
        if self.top_k is None and self.top_p in (None, 1):
            return p
        ranked, order = p.sort(dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            ranked[:, self.top_k :] = 0.0
            ranked /= ranked.sum(-1, keepdim=True)
        if self.top_p not in (None, 1):
            before = ranked.cumsum(-1).roll(1, -1)
            before[:, 0] = 0.0
            ranked[before >= self.top_p * (1 - ROUNDING)] = 0.0
            ranked /= ranked.sum(-1, keepdim=True)
        return torch.zeros_like(p).scatter_(1, order, ranked)

    def draw(self, logits: Tensor, luck: Tensor) -> Tensor:
        """A token for each row, by its luck: a number from 0 to below 1."""
        reached = self.probabilities(logits).cumsum(-1)
        return torch.searchsorted(reached, luck.unsqueeze(1) * reached[:, -1:], right=True).squeeze(1)


def generate(
    model: Predictor, prompt: Sequence[int], count: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[int]:
    """The `count` ids that go on where the prompt stops, each as soon as it is drawn."""
    return _generate(model, _read_prompts("prompt", [prompt]), check_size("count", count), sampling, generator)


def _generate(
    model: Predictor, ids: Tensor, count: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[int]:
    state = None
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        ids = sampling.draw(logits, _luck(1, generator)).unsqueeze(0)
        yield int(ids)


def generate_many(
    model: Predictor,
    prompts: Sequence[int] | Sequence[Sequence[int]],
    rows: int,
    count: int,
    sampling: Sampling,
    generator: torch.Generator,
    stop_id: int | None = None,
) -> list[list[int]]:
    """`rows` continuations of at most `count` ids, each up to its `stop_id`, which is left out.

    `prompts` are either one for all rows, or one for each row, all of the same length. What a row draws depends on
    the generator, on `rows` and on its own past, not on when the others stop.
    """
    check_size("rows", rows)
    check_size("count", count)
    _check_stop(stop_id, sampling.banned)
    one = len(prompts) == 0 or np.ndim(prompts[0]) == 0
    ids = _read_prompts("prompts", [cast(Sequence[int], prompts)] if one else cast(Sequence[Sequence[int]], prompts))
    if one:
        ids = ids.expand(-1, rows)
    elif len(prompts) != rows:
        raise ArgumentError.of("rows", rows, f"is not the number of prompts, {len(prompts)}", "Give one for each row")
    written: list[list[int]] = [[] for _ in range(rows)]
    live, state = torch.arange(rows), None
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        _check_stop(stop_id, (), logits.shape[1])
        drawn = sampling.draw(logits, _luck(rows, generator)[live])
        on = torch.ones_like(live, dtype=torch.bool) if stop_id is None else drawn != stop_id
        if not on.all():
            live, drawn, state = live[on], drawn[on], _take(state, on.nonzero().squeeze(1))
        for row, token in zip(live.tolist(), drawn.tolist(), strict=True):
            written[row].append(token)
        if not len(live):
            break
        ids = drawn.unsqueeze(0)
    return written


def beam_search(
    model: Predictor,
    prompt: Sequence[int],
    count: int,
    width: int,
    stop_id: int | None = None,
    length_penalty: float = 0.0,
    banned: Sequence[int] = (),
) -> list[tuple[float, list[int]]]:
    """The likeliest continuations that `width` beams find, the best first, each with its log-probability.

    A beam that reaches `stop_id` is done and keeps its place, while the others go on, up to `count` ids. The best has
    the highest log-probability / length**length_penalty. The stop id counts in the probability and in the length,
    but is not among the ids. Log-probabilities are the model's own: banned ids are passed over, and what they had is
    not shared out. There are fewer than `width` results where there are fewer sequences.
    """
    check_size("count", count)
    check_size("width", width)
    if not (_is_number(length_penalty) and length_penalty >= 0):
        raise ArgumentError.of("length_penalty", length_penalty, "is not a number from 0 on", "Give 0 for none")
    _check_stop(stop_id, _check_ids("banned", banned))
    ids, state = _read_prompts("prompt", [prompt]), None
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        _check_stop(stop_id, (), logits.shape[1])
        log_p = _without(_check_logits(logits).log_softmax(-1), banned)
        totals = log_p + torch.tensor([total for total, _ in live], dtype=log_p.dtype).unsqueeze(1)
        places = _highest(totals.flatten(), width - len(done))
        grown, parents = [], []
        for place, total in zip(places.tolist(), totals.flatten()[places].tolist(), strict=True):
            parent, token = divmod(place, log_p.shape[1])
            if token == stop_id:
                done.append((total, live[parent][1]))
            else:
                grown.append((total, [*live[parent][1], token]))
                parents.append(parent)
        live = grown
        if not live:
            break
        ids, state = torch.tensor([[tokens[-1] for _, tokens in live]]), _take(state, torch.tensor(parents))
    if not live and not done:
        raise ArgumentError.of("banned", tuple(banned), "leaves no token that is possible", "Ban fewer")
    scored = [(total * (len(tokens) + 1) ** -length_penalty, total, tokens) for total, tokens in done]
    scored += [(total * len(tokens) ** -length_penalty, total, tokens) for total, tokens in live]
    return [(total, tokens) for _, total, tokens in sorted(scored, key=lambda one: -one[0])]


class TextStream:
    """Ids in, one by one; out comes text that no later id can change, up to the first of the stop strings.

    `context` are the ids before the first one, such as the prompt's: they are not given out, but the blank between the
    prompt's last word and the next one is. What is given out does not depend on how the text is cut into ids.

    `decode` is a vocabulary's. Later ids may add to its text and may turn at most three characters U+FFFD at its end
    into others: a character of UTF-8 is at most four bytes. And the text of an id must not depend on more than the
    `CONTEXT` ids before it, since only so many are remembered for certain.
    """

    CONTEXT, LONGEST = 16, 32  # three U+FFFD may hide nine bytes, and a window that opens amid a character three more

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = (), context: Sequence[int] = ()
    ) -> None:
        if isinstance(stop, str) or not all(isinstance(string, str) for string in stop):
            raise ArgumentTypeError.of("stop", stop, "is not a tuple of strings", 'Give such as stop=("\\n\\n",)')
        if "" in stop:
            raise ArgumentError.of("stop", stop, "has an empty string, at which all text stops", "Leave it out")
        self.stopped = False
        self._decode, self._stop = decode, tuple(stop)
        self._recent = _check_ids("context", context[-self.CONTEXT :])
        self._text = decode(self._recent)  # of the recent ids
        self._given = len(self._text)  # of the text, the characters that are settled and need no second look
        self._held = ""  # settled, but it may be the beginning of a stop string

    def push(self, token: int) -> str:
        """The text that is certain now that this id has come; nothing once a stop string has come."""
        if self.stopped:
            return ""
        self._recent.append(token)
        self._text = self._decode(self._recent)
        broken = len(self._text) - len(self._text.rstrip("\ufffd"))
        new = self._settle(len(self._text) - min(broken, 3))
        if len(self._recent) > self.LONGEST:
            unsettled = len(self._text) - self._given
            self._recent = self._recent[-self.CONTEXT :]
            self._text = self._decode(self._recent)
            self._given = len(self._text) - unsettled
        return self._release(new)

    def finish(self) -> str:
        """The text that was withheld, when no more ids come."""
        if self.stopped:
            return ""
        text = self._release(self._settle(len(self._text)))
        rest, self._held = self._held, ""
        return text + rest

    def _settle(self, end: int) -> str:
        """The text that is settled up to `end` and was not before."""
        new = self._text[self._given : end]
        self._given = max(self._given, end)
        return new

    def _release(self, new: str) -> str:
        """What of the text may be shown. The stop string that is complete first counts; the longest, if several are."""
        text = self._held + new
        found = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        begun = [size for stop in self._stop for size in range(1, len(stop)) if text.endswith(stop[:size])]
        end = len(text) - max(begun, default=0)
        self._held = text[end:]
        return text[:end]


def _predict(model: Predictor, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
    """One call of the model. Gradients are off within it alone: a generator's `with` would reach its consumer."""
    with torch.no_grad():  # and not inference_mode, whose tensors a layer that caches could not train with afterwards
        logits, state = model.predict(ids, state)
    if logits.dim() != 2 or len(logits) != ids.shape[1]:
        remedy = "Let `predict` give the logits after the last token"
        raise ShapeError.of("logits", tuple(logits.shape), f"is not ({ids.shape[1]}, vocabulary)", remedy)
    return logits, state


def _luck(rows: int, generator: torch.Generator) -> Tensor:
    return torch.rand(rows, dtype=torch.float64, generator=generator, device=generator.device).cpu()


def _take(state: Any, rows: Tensor) -> Any:
    """The given rows of a nested state, in that order."""
    return map_leaves(lambda part: part[rows.to(part.device)], state)


def _highest(values: Tensor, count: int) -> Tensor:
    """The places of the highest values that are not −∞, the highest first, and of equal ones the first first."""
    least = values.topk(min(count, len(values))).values[-1]
    places = ((values >= least) & (values > -math.inf)).nonzero().squeeze(1)  # topk alone takes any of equal ones
    return places[values[places].argsort(descending=True, stable=True)[:count]]


def _check_logits(logits: Tensor) -> Tensor:
    """The logits in float64 on the CPU, where tokens are chosen."""
    if logits.dim() != 2:
        problem = f"has {logits.dim()} dimension(s)"
        raise ShapeError.of("logits", tuple(logits.shape), problem, "Give (rows, vocabulary)")
    precise = logits.detach().to("cpu", torch.float64)
    if (precise.isnan() | (precise == math.inf)).any():
        raise ArgumentError("the model gives NaN or ∞ for logits. Check its parameters: training may have diverged.")
    return precise


def _without(values: Tensor, banned: Sequence[int]) -> Tensor:
    """The values (rows, vocabulary) with −∞ for the banned ids."""
    size = values.shape[1]
    if outside := [token for token in banned if token >= size]:
        raise ArgumentError.of("banned", outside[0], f"is not in the vocabulary of {size}", f"Ban ids below {size}")
    return values.index_fill(1, torch.tensor(banned, dtype=torch.long), -math.inf)


def _read_prompts(name: str, prompts: Sequence[Sequence[int]]) -> Tensor:
    """Prompts of one length as (time, rows)."""
    rows = [_check_ids(name, prompt) for prompt in prompts]
    if lengths := {len(row) for row in rows} - {len(rows[0])}:
        problem = f"are not of one length: {len(rows[0])} and {min(lengths)}"
        raise ShapeError.of(name, prompts, problem, "Generate from those of each length at a time")
    if not rows[0]:
        raise ArgumentError.of(name, prompts[0], "has no ids", "Give at least one, such as that of a new line")
    return torch.tensor(rows).T


def _check_ids(name: str, ids: Sequence[int]) -> list[int]:
    return [check_size(f"{name}[{place}]", number, 0) for place, number in enumerate(ids)]


def _check_stop(stop_id: int | None, banned: Sequence[int], size: int | None = None) -> None:
    """Refuse a stop id that can never come."""
    if stop_id is None:
        return
    check_size("stop_id", stop_id, 0)
    if stop_id in banned:
        raise ArgumentError.of("stop_id", stop_id, "is banned, so that nothing would stop", "Take it out of `banned`")
    if size is not None and stop_id >= size:
        raise ArgumentError.of("stop_id", stop_id, f"is not in the vocabulary of {size}", f"Give an id below {size}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
