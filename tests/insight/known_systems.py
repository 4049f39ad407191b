"""Systems whose memory is derived: how they are made, and how many steps predict the next as well as any number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
#: Fewer steps are enough if they leave this fraction of what can be gained; the definition of plan's memory.
LEFT = 0.03


class System(NamedTuple):
    """Tokens of a known memory."""

    make: Callable[[int, int], Ids]  # of so many steps, with a seed
    memory: Callable[[int], int]  # by the seed


def make_markov(order: int, tokens: int, steps: int, seed: int, sharpness: float = 0.3) -> Ids:
    """Each context of `order` tokens has a distribution of its own: `order` steps tell all, and fewer do not."""
    chance = np.random.default_rng(seed)
    table = chance.dirichlet(np.full(tokens, sharpness), tokens**order).cumsum(1)
    draws, state, found = chance.random(steps), 0, np.zeros(steps, np.int64)
    for step, draw in enumerate(draws):
        found[step] = min(int(np.searchsorted(table[state], draw)), tokens - 1)
        state = (state * tokens + found[step]) % tokens**order
    return found


def make_xor(steps: int, seed: int, flipped: float = 0.1) -> Ids:
    """x_t = x_{t−1} ⊕ x_{t−2} ⊕ x_{t−3}, sometimes flipped: any two of the three are independent of x_t, so 3."""
    chance = np.random.default_rng(seed)
    found, flips = chance.integers(0, 2, steps), chance.random(steps) < flipped
    for step in range(3, steps):
        found[step] = found[step - 1] ^ found[step - 2] ^ found[step - 3] ^ flips[step]
    return found


def make_copies(lag: int, tokens: int, steps: int, seed: int, copied: float = 0.7) -> Ids:
    """x_t = x_{t−lag}, or else any token: given that one step, x_t is independent of all the others, so `lag`."""
    chance = np.random.default_rng(seed)
    found, copies = chance.integers(0, tokens, steps), chance.random(steps) < copied
    for step in range(lag, steps):
        if copies[step]:
            found[step] = found[step - lag]
    return found


def make_blocks(length: int, tokens: int, steps: int, seed: int) -> Ids:
    """Random blocks, each written twice: the only step that tells of x_t is one block back, so `length`."""
    blocks = np.random.default_rng(seed).integers(0, tokens, (steps // (2 * length) + 1, 1, length))
    return np.repeat(blocks, 2, 1).ravel()[:steps]


def make_cycle(period: int, tokens: int, steps: int, seed: int, wrong: float = 0.0) -> Ids:
    """A random block over and over, with some tokens replaced by random ones."""
    chance = np.random.default_rng(seed)
    found = np.resize(chance.integers(0, tokens, period), steps)
    return np.where(chance.random(steps) < wrong, chance.integers(0, tokens, steps), found)


def solve_cycle(period: int, tokens: int, seed: int) -> int:
    """Of an exact cycle: the shortest context that is always followed by the same token, not the period."""
    block = np.resize(np.random.default_rng(seed).integers(0, tokens, period), 3 * period).tolist()
    for order in range(period):
        after: dict[tuple[int, ...], set[int]] = {}
        for end in range(period, 2 * period):
            after.setdefault(tuple(block[end - order : end]), set()).add(block[end])
        if all(len(tokens_) == 1 for tokens_ in after.values()):
            return order
    return period


def solve_noisy_cycle(period: int, tokens: int, seed: int, wrong: float) -> int:
    """Of a cycle with wrong tokens: Bayes' rule for the phase, from the last m tokens, over many steps."""
    steps = 6000
    ids = make_cycle(period, tokens, steps, seed, wrong)
    block = np.random.default_rng(seed).integers(0, tokens, period)
    emitted = np.full((period, tokens), wrong / tokens)
    emitted[np.arange(period), block] += 1 - wrong
    start, ends = 60, np.arange(60, steps)
    belief = np.zeros((steps - start, period))  # by the phase of the step that is predicted
    losses = []
    for order in range(start):
        weights = np.exp(belief - belief.max(1, keepdims=True))
        predicted = weights / weights.sum(1, keepdims=True) @ emitted
        losses.append(float(-np.log(predicted[np.arange(len(ends)), ids[ends]]).mean()))
        earlier = np.roll(emitted, order + 1, axis=0)  # what the phase order + 1 steps before emits
        belief += np.log(earlier[:, ids[ends - order - 1]]).T
    return _enough(losses)


def make_dyck(steps: int, seed: int, opens: float = 0.45) -> Ids:
    """Two kinds of brackets, nested: 0 and 1 open, 2 and 3 close."""
    chance = np.random.default_rng(seed)
    stack: list[int] = []
    found: list[int] = []
    while len(found) < steps:
        if not stack or chance.random() < opens:
            stack.append(int(chance.integers(2)))
            found.append(stack[-1])
        else:
            found.append(2 + stack.pop())
    return np.array(found)


def solve_dyck(opens: float = 0.45) -> int:
    """Which bracket closes is known if the one to be closed is among the last m tokens."""
    places: list[int] = []
    distance: list[int] = []
    for step, token in enumerate(make_dyck(40_000, 0, opens)):
        if token >= 2:
            distance.append(step - places.pop())
        else:
            places.append(step)
    distances = np.array(distance)
    closing = (1 - opens) * np.log(2)  # what is gained where the kind is known
    known = [float((distances <= order).mean()) * closing for order in range(200)]
    # opening and closing are independent of the past, but for an empty stack, which is rare: the kind is all there is
    return _enough([-one for one in known])


def _enough(losses: list[float]) -> int:
    gain = losses[0] - min(losses)
    return next(order for order, loss in enumerate(losses) if loss - min(losses) <= LEFT * gain)


def make_noise(tokens: int, steps: int, seed: int) -> Ids:
    """Independent tokens, common and rare ones: 0."""
    frequencies = 1 / np.arange(1, tokens + 1)
    return np.random.default_rng(seed).choice(tokens, steps, p=frequencies / frequencies.sum())


def make_drift(tokens: int, steps: int, seed: int) -> Ids:
    """Independent tokens whose frequencies change slowly from one distribution to another: 0."""
    chance = np.random.default_rng(seed)
    first, last = chance.dirichlet(np.ones(tokens), 2)
    share = np.linspace(0, 1, steps)[:, None]
    bounds = ((1 - share) * first + share * last).cumsum(1)
    return np.asarray(np.minimum((chance.random(steps)[:, None] > bounds).sum(1), tokens - 1))


def constant(memory: int) -> Callable[[int], int]:
    return lambda _: memory


SYSTEMS: dict[str, System] = {
    "Markov, order 3, 4 tokens": System(lambda n, s: make_markov(3, 4, n, s), constant(3)),
    "Markov, order 3, 10 tokens": System(lambda n, s: make_markov(3, 10, n, s, 0.1), constant(3)),
    "Markov, order 1, 30 tokens": System(lambda n, s: make_markov(1, 30, n, s, 0.1), constant(1)),
    "xor of 3, a tenth flipped": System(make_xor, constant(3)),
    "copy of 30 back, 4 tokens": System(lambda n, s: make_copies(30, 4, n, s), constant(30)),
    "copy of 30 back, 50 tokens": System(lambda n, s: make_copies(30, 50, n, s), constant(30)),
    "copied blocks of 20": System(lambda n, s: make_blocks(20, 4, n, s), constant(20)),
    "period 50": System(lambda n, s: make_cycle(50, 4, n, s), lambda s: solve_cycle(50, 4, s)),
    "period 50, a tenth wrong": System(
        lambda n, s: make_cycle(50, 4, n, s, 0.1), lambda s: solve_noisy_cycle(50, 4, s, 0.1)
    ),
    "Dyck-2": System(make_dyck, lambda _: solve_dyck()),
    "independent, 4 tokens": System(lambda n, s: np.random.default_rng(s).integers(0, 4, n), constant(0)),
    "independent, 200 tokens": System(lambda n, s: make_noise(200, n, s), constant(0)),
    "drift": System(lambda n, s: make_drift(4, n, s), constant(0)),
}


def make_autoregression(weights: dict[int, float], steps: int, seed: int) -> NDArray[np.float64]:
    """x_t = Σ w_k x_{t−k} + noise: the longest k."""
    values = np.random.default_rng(seed).normal(size=steps + 500)
    for step in range(max(weights), len(values)):
        values[step] += sum(weight * values[step - lag] for lag, weight in weights.items())
    return values[500:]


def make_season(period: int, steps: int, seed: int, noise: float = 0.5) -> NDArray[np.float64]:
    """A season of any shape on a trend, with noise: the step one period back has the same phase."""
    chance = np.random.default_rng(seed)
    found: Any = np.resize(2 * chance.normal(size=period), steps) + 0.01 * np.arange(steps)
    return np.asarray(found + noise * chance.normal(size=steps))


def make_slow_waves(steps: int, seed: int) -> NDArray[np.float64]:
    """Independent noise on a level that drifts: 0."""
    chance, time = np.random.default_rng(seed), np.linspace(0, 1, steps)
    level = 3 * np.sin(8 * time + 6 * chance.random()) + 2 * np.cos(4 * time)
    return np.asarray(level + chance.normal(size=steps))
