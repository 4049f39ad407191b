"""Generation with a language model: sampling and beam search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from unspool.cells.cell import check_size
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, DivergenceError, ShapeError
from unspool.nn.leaves import take_rows

#: Tolerance of a sum of probabilities: eight tokens of 0.1 reach 0.8, which their sum in floating point does not.
ROUNDING = 1e-12


class Predictor(Protocol):
    """A language model as generation sees it, in evaluation mode."""

    def predict(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits (batch, vocabulary) of the token after the last of `ids` (time, batch), and the new state.

        `ids` are 64-bit integers on the CPU. The state is any nesting of tuples and lists of tensors whose first axis
        is the batch; None is the state before the first token.
        """
        ...


@dataclass(frozen=True)
class Sampling:
    """How a token is sampled from logits.

    Args:
        temperature: Divides the logits; at 0 the most probable token is certain.
        top_k: How many of the most probable tokens are kept; None: all.
        top_p: Of those, the fewest most probable ones with at least this probability together are kept.
        banned: Ids that are never sampled, and do not count among the most probable.

    Of equally probable tokens the one with the lower id comes first.

    Example:
        Sampling(temperature=0.8, top_k=40).probabilities(logits)
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (_is_number(self.temperature) and self.temperature >= 0):
            remedy = "Give 1 for the model's own probabilities, 0 for the most probable token"
            raise ArgumentError.of("temperature", self.temperature, "is not a number from 0 on", remedy)
        if self.top_k is not None:
            check_size("top_k", self.top_k)
        if self.top_p is not None and not (_is_number(self.top_p) and 0 < self.top_p <= 1):
            remedy = "Give a number above 0 and up to 1, such as top_p=0.9"
            raise ArgumentError.of("top_p", self.top_p, "is not a probability above 0", remedy)
        check_ids("banned", self.banned)

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each token (batch, vocabulary), in float64 on the CPU."""
        logits = _without(_check_logits(logits), self.banned)
        highest = logits.amax(-1, keepdim=True)
        if (highest == -math.inf).any():
            raise ArgumentError.of("banned", self.banned, "leaves no possible token", "Ban fewer")
        if self.temperature == 0:
            return torch.zeros_like(logits).scatter_(1, logits.argmax(-1, keepdim=True), 1.0)
        p = ((logits - highest) / self.temperature).softmax(-1)  # the highest is 0 at any temperature
        if self.top_k is None and self.top_p in (None, 1):
            return p
        ranked, order = p.sort(dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            ranked[:, self.top_k :] = 0.0
            ranked /= ranked.sum(-1, keepdim=True)
        if self.top_p not in (None, 1):
            _keep_nucleus(ranked, self.top_p)
        return torch.zeros_like(p).scatter_(1, order, ranked)

    def draw(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """One token per sequence, by its random number from 0 to below 1."""
        reached = self.probabilities(logits).cumsum(-1)
        return torch.searchsorted(reached, uniform.unsqueeze(1) * reached[:, -1:], right=True).squeeze(1)


def _keep_nucleus(ranked: Tensor, top_p: float) -> None:
    """Keep the most probable tokens that reach `top_p` together, and let them sum to 1."""
    before = ranked.cumsum(-1).roll(1, -1)
    before[:, 0] = 0.0
    ranked[before >= top_p * (1 - ROUNDING)] = 0.0
    ranked /= ranked.sum(-1, keepdim=True)


def generate(
    model: Predictor, prompt: Sequence[int], count: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[int]:
    """Sample a continuation.

    Args:
        model: The language model.
        prompt: Ids of the prompt, one at least.
        count: How many ids to sample.
        sampling: How they are sampled.
        generator: The source of random numbers.

    Returns:
        An iterator over the ids, each as soon as it is sampled.

    Example:
        list(generate(model, vocabulary.ids("The "), 80, Sampling(0.8), torch.Generator().manual_seed(0)))
    """
    return _generate(model, _read_prompts("prompt", [prompt]), check_size("count", count), sampling, generator)


def _generate(
    model: Predictor, ids: Tensor, count: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[int]:
    state = None
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        ids = sampling.draw(logits, _uniform(1, generator)).unsqueeze(0)
        yield int(ids)


def generate_many(
    model: Predictor,
    prompts: Sequence[int] | Sequence[Sequence[int]],
    samples: int,
    count: int,
    sampling: Sampling,
    generator: torch.Generator,
    stop_id: int | None = None,
) -> list[list[int]]:
    """Sample several continuations at once.

    What a sample draws depends on the generator, on `samples` and on its own past, not on when the others stop.

    Args:
        model: The language model.
        prompts: One prompt for all samples, or one per sample, all of the same length.
        samples: How many continuations.
        count: The most ids of each.
        sampling: How ids are sampled.
        generator: The source of random numbers.
        stop_id: The id at which a continuation ends, which is left out.

    Returns:
        The ids of each continuation.
    """
    check_size("samples", samples)
    check_size("count", count)
    _check_stop(stop_id, sampling.banned)
    ids = _spread_prompts(prompts, samples)
    written: list[list[int]] = [[] for _ in range(samples)]
    live, state = torch.arange(samples), None
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        _check_stop(stop_id, (), logits.shape[1])
        drawn = sampling.draw(logits, _uniform(samples, generator)[live])
        continues = torch.ones_like(live, dtype=torch.bool) if stop_id is None else drawn != stop_id
        if not continues.all():
            live, drawn, state = live[continues], drawn[continues], take_rows(state, continues.nonzero().squeeze(1))
        for sample, token in zip(live.tolist(), drawn.tolist(), strict=True):
            written[sample].append(token)
        if not len(live):
            break
        ids = drawn.unsqueeze(0)
    return written


def _spread_prompts(prompts: Sequence[int] | Sequence[Sequence[int]], samples: int) -> Tensor:
    """One prompt for all samples, or one per sample, as (time, batch)."""
    if len(prompts) == 0 or np.ndim(prompts[0]) == 0:
        return _read_prompts("prompts", [cast(Sequence[int], prompts)]).expand(-1, samples)
    ids = _read_prompts("prompts", cast(Sequence[Sequence[int]], prompts))
    if len(prompts) != samples:
        problem = f"is not the number of prompts, {len(prompts)}"
        raise ArgumentError.of("samples", samples, problem, "Give one prompt per sample")
    return ids


def beam_search(
    model: Predictor,
    prompt: Sequence[int],
    count: int,
    width: int,
    stop_id: int | None = None,
    length_penalty: float = 0.0,
    banned: Sequence[int] = (),
) -> list[tuple[float, list[int]]]:
    """Search for the most probable continuations.

    A beam that reaches `stop_id` is done and keeps its place, while the others continue up to `count` ids. The stop id
    counts in the probability and in the length, but is not among the ids. Log-probabilities are the model's own:
    banned ids are skipped, and their probability is not redistributed.

    Args:
        model: The language model.
        prompt: Ids of the prompt, one at least.
        count: The most ids of a continuation.
        width: The number of beams.
        stop_id: The id at which a continuation ends.
        length_penalty: Continuations are ranked by log-probability / length**length_penalty.
        banned: Ids that never occur.

    Returns:
        Pairs of log-probability and ids, the best first; fewer than `width` where there are fewer sequences.
    """
    check_size("count", count)
    check_size("width", width)
    if not (_is_number(length_penalty) and length_penalty >= 0):
        raise ArgumentError.of("length_penalty", length_penalty, "is not a number from 0 on", "Give 0 for none")
    _check_stop(stop_id, check_ids("banned", banned))
    ids, state = _read_prompts("prompt", [prompt]), None
    beams = _Beams(width, stop_id)
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        _check_stop(stop_id, (), logits.shape[1])
        parents = beams.grow(_without(_check_logits(logits).log_softmax(-1), banned))
        if not beams.live:
            break
        ids, state = beams.last_tokens(), take_rows(state, torch.tensor(parents))
    if not beams.live and not beams.done:
        raise ArgumentError.of("banned", tuple(banned), "leaves no possible token", "Ban fewer")
    return beams.ranked(length_penalty)


@dataclass
class _Beams:
    """Continuations with their log-probabilities: those that still grow, and those that have reached the stop id."""

    width: int
    stop_id: int | None
    live: list[tuple[float, list[int]]] = field(default_factory=lambda: [(0.0, [])])
    done: list[tuple[float, list[int]]] = field(default_factory=list)

    def grow(self, log_p: Tensor) -> list[int]:
        """Extend the live beams by the most probable next tokens; returns the beam that each live one came from."""
        totals = log_p + torch.tensor([total for total, _ in self.live], dtype=log_p.dtype).unsqueeze(1)
        places = _highest(totals.flatten(), self.width - len(self.done))
        grown, parents = [], []
        for place, total in zip(places.tolist(), totals.flatten()[places].tolist(), strict=True):
            parent, token = divmod(place, log_p.shape[1])
            if token == self.stop_id:
                self.done.append((total, self.live[parent][1]))
            else:
                grown.append((total, [*self.live[parent][1], token]))
                parents.append(parent)
        self.live = grown
        return parents

    def last_tokens(self) -> Tensor:
        """The last id of each live beam, (1, beams)."""
        return torch.tensor([[tokens[-1] for _, tokens in self.live]])

    def ranked(self, length_penalty: float) -> list[tuple[float, list[int]]]:
        """All beams, the best first; the stop id counts in the length."""
        scored = [(total * (len(tokens) + 1) ** -length_penalty, total, tokens) for total, tokens in self.done]
        scored += [(total * len(tokens) ** -length_penalty, total, tokens) for total, tokens in self.live]
        return [(total, tokens) for _, total, tokens in sorted(scored, key=lambda one: -one[0])]


def _predict(model: Predictor, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
    """One call of the model. Gradients are off within it alone: a generator's `with` would reach its consumer."""
    with torch.no_grad():  # not inference_mode: a layer that caches such tensors could not be trained afterwards
        logits, state = model.predict(ids, state)
    if logits.dim() != 2 or len(logits) != ids.shape[1]:
        remedy = "Let `predict` give the logits after the last token"
        raise ShapeError.of("logits", tuple(logits.shape), f"is not ({ids.shape[1]}, vocabulary)", remedy)
    return logits, state


def _uniform(samples: int, generator: torch.Generator) -> Tensor:
    return torch.rand(samples, dtype=torch.float64, generator=generator, device=generator.device).cpu()


def _highest(values: Tensor, count: int) -> Tensor:
    """The places of the highest values that are not −∞, the highest first; of equal ones the first comes first."""
    least = values.topk(min(count, len(values))).values[-1]
    places = ((values >= least) & (values > -math.inf)).nonzero().squeeze(1)  # topk alone takes any of equal ones
    return places[values[places].argsort(descending=True, stable=True)[:count]]


def _check_logits(logits: Tensor) -> Tensor:
    """The logits in float64 on the CPU, where tokens are chosen."""
    if logits.dim() != 2:
        problem = f"has {logits.dim()} dimension(s)"
        raise ShapeError.of("logits", tuple(logits.shape), problem, "Give (batch, vocabulary)")
    precise = logits.detach().to("cpu", torch.float64)
    if (precise.isnan() | (precise == math.inf)).any():
        raise DivergenceError("the model gives NaN or ∞ for logits: training may have diverged")
    return precise


def _without(values: Tensor, banned: Sequence[int]) -> Tensor:
    """The values (batch, vocabulary) with −∞ for the banned ids."""
    size = values.shape[1]
    if outside := [token for token in banned if token >= size]:
        raise ArgumentError.of("banned", outside[0], f"is not in the vocabulary of {size}", f"Ban ids below {size}")
    return values.index_fill(1, torch.tensor(banned, dtype=torch.long), -math.inf)


def _read_prompts(name: str, prompts: Sequence[Sequence[int]]) -> Tensor:
    """Prompts of one length as (time, batch)."""
    ids = [check_ids(name, prompt) for prompt in prompts]
    if lengths := {len(one) for one in ids} - {len(ids[0])}:
        problem = f"are not of one length: {len(ids[0])} and {min(lengths)}"
        raise ShapeError.of(name, prompts, problem, "Generate from those of each length separately")
    if not ids[0]:
        raise ArgumentError.of(name, prompts[0], "has no ids", "Give at least one, such as that of a new line")
    return torch.tensor(ids).T


def check_ids(name: str, ids: Sequence[int]) -> list[int]:
    """Ids as a list; refused where one is not a number from 0 on."""
    return [check_size(f"{name}[{place}]", number, 0) for place, number in enumerate(ids)]


def _check_stop(stop_id: int | None, banned: Sequence[int], size: int | None = None) -> None:
    """Refuse a stop id that can never occur."""
    if stop_id is None:
        return
    check_size("stop_id", stop_id, 0)
    if stop_id in banned:
        raise ArgumentError.of("stop_id", stop_id, "is banned, so that nothing would stop", "Take it out of `banned`")
    if size is not None and stop_id >= size:
        raise ArgumentError.of("stop_id", stop_id, f"is not in the vocabulary of {size}", f"Give an id below {size}")


def _is_number(value: object) -> bool:
    return is_number(value) and math.isfinite(value)
