"""The memory of tokens: systems whose memory is derived, noise, drift, and what counting cannot see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.insight.known_systems import SYSTEMS, make_copies, make_cycle, make_drift, make_dyck, make_markov

from unspool.insight.measures.context import Context, Point, choose_shortest, standard_error
from unspool.insight.measures.counting import Stream
from unspool.insight.measures.dependence import Dependence, measure_mutual_information
from unspool.insight.measures.token_memory import measure_tokens, tells_more
from unspool.insight.probe import probe


def find_memory(ids: np.ndarray, *, probed: bool = False) -> Context:
    return measure_tokens([ids], measure_mutual_information([ids]), probe=probe if probed else None)


def is_near(found: int, exact: int) -> bool:
    """Within a factor of 2; no memory is exact."""
    return exact / 2 <= found <= 2 * exact


def few_lags(sequences: Sequence[np.ndarray]) -> Dependence:
    return measure_mutual_information(sequences, 30)


#: What counting alone finds at this size.
COUNTED = [name for name in SYSTEMS if name not in ("Dyck-2", "period 50, a tenth wrong", "Markov, order 3, 10 tokens")]


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("steps", [1000, 8000])
def test_a_known_memory_is_found_within_a_factor_of_two(name: str, steps: int) -> None:
    for seed in (1, 2):
        system = SYSTEMS[name]
        assert is_near(find_memory(system.make(steps, seed)).memory, system.memory(seed))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "Dyck-2"])
@pytest.mark.parametrize(("steps", "seeds"), [(10_000, 3), (100_000, 1)])
def test_a_known_memory_is_found_with_the_probe(name: str, steps: int, seeds: int) -> None:
    system = SYSTEMS[name]
    found = [find_memory(system.make(steps, seed), probed=True).memory for seed in range(seeds)]
    right = sum(is_near(memory, system.memory(seed)) for seed, memory in enumerate(found))
    assert right >= max(1, seeds - 1)


def test_noise_has_a_memory_in_less_than_one_case_in_twenty() -> None:
    """30 + 30 sequences: with a chance of 5 % each, more than 6 would come once in 50 times."""
    several = [np.random.default_rng(seed).integers(0, 4, 600) for seed in range(30)]
    many = [SYSTEMS["independent, 200 tokens"].make(1500, seed) for seed in range(30)]
    assert sum(find_memory(one).memory > 0 for one in [*several, *many]) <= 3


def test_a_large_alphabet_of_order_three_needs_much_data() -> None:
    ids = make_markov(3, 10, 60_000, 0, 0.1)  # a thousand contexts
    assert find_memory(ids).memory == 3
    assert find_memory(ids[:1500]).at_least or find_memory(ids[:1500]).memory == 0


def test_drift_is_told_apart_from_memory() -> None:
    ids = make_drift(4, 20_000, 1)
    assert measure_mutual_information([ids]).memory > 0  # pairs take it for memory
    found = find_memory(ids)
    assert (found.memory, found.drift > 0.5) == (0, True)
    chance = np.random.default_rng(0)
    for step in range(12, len(ids)):
        ids[step] = ids[step - 12] if chance.random() < 0.6 else ids[step]
    assert find_memory(ids).memory == 12


def test_what_repeats_with_distinct_contexts_needs_less_than_its_period() -> None:
    assert find_memory(np.resize(np.arange(50), 5000)).memory == 1  # each token has one successor
    assert find_memory(np.resize([0] * 19 + [1], 5000)).memory in range(15, 21)  # zeros must be counted


def test_a_network_sees_what_counting_cannot() -> None:
    ids = make_dyck(30_000, 0)
    counted, probed = find_memory(ids), find_memory(ids, probed=True)
    assert (counted.hidden, probed.hidden) == (False, True)
    assert probed.memory >= 2 * counted.memory
    assert probed.losses[-1] < counted.losses[-1] - 0.02
    # the loss of one that knows the whole stack: whether to open, which kind, and nothing where it closes
    least = -(0.45 * np.log(0.45) + 0.55 * np.log(0.55)) + 0.45 * np.log(2)
    assert least - 0.02 < probed.losses[-1] < least + 0.1


def test_a_network_that_is_no_better_changes_nothing() -> None:
    ids = make_markov(2, 4, 5000, 0)

    def know_nothing(stream: Stream) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        targets = np.arange(3000, 5000)
        return targets, {8: np.full(2000, np.log(stream.size))}

    found = measure_tokens([ids], measure_mutual_information([ids]), probe=know_nothing)
    assert (found.memory, found.hidden, found.probed) == (2, False, "")


def test_lines_that_tell_nothing_of_each_other_are_known_as_such() -> None:
    chance, letters = np.random.default_rng(0), make_markov(2, 4, 8000, 7)
    names = [np.append(letters[at : at + chance.integers(3, 8)], 4) for at in range(0, 7990, 10)]
    assert not tells_more([np.concatenate(names)], names, few_lags)
    words = [
        np.append(letters[at : at + 6], 4) for at in range(0, 7990, 10)
    ]  # of equal length: a line ends with its 7th
    assert not tells_more([np.concatenate(words)], words, few_lags)
    copied = make_copies(7, 4, 4200, 0)
    parts = list(copied.reshape(-1, 7))  # each line resembles the one before it
    assert tells_more([copied], parts, few_lags)


@pytest.mark.parametrize("ids", [np.zeros(0, np.int64), np.zeros(500, np.int64), np.arange(30)])
def test_nothing_to_learn(ids: np.ndarray) -> None:
    assert find_memory(ids).memory == 0


def test_the_fewest_steps_that_are_enough() -> None:
    chance = np.random.default_rng(0).normal(size=3200) * 0.01
    points = [Point(steps, loss + chance, "counts") for steps, loss in ((0, 1.0), (1, 0.7), (4, 0.51), (9, 0.5))]
    found = choose_shortest(points)
    assert (found.memory, found.steps) == (4, (0, 1, 4, 9))
    assert found.share(2) == pytest.approx(0.98)
    assert found.gain == pytest.approx(0.5)
    noisy = [points[0], Point(3, points[0].losses - np.random.default_rng(1).normal(0.01, 1.0, 3200), "counts")]
    assert choose_shortest(noisy).memory == 0


def test_the_error_of_a_mean_counts_neighbors_once() -> None:
    independent = np.random.default_rng(0).normal(size=32_000)
    assert standard_error(independent) == pytest.approx(1 / np.sqrt(32_000), rel=0.1)
    assert standard_error(np.repeat(independent[:1000], 32)) == pytest.approx(1 / np.sqrt(1000), rel=0.1)


def test_a_noisy_cycle_is_known_from_few_steps_by_a_network() -> None:
    ids = make_cycle(50, 4, 10_000, 0, 0.1)
    found = find_memory(ids, probed=True)
    assert found.hidden
    assert is_near(found.memory, SYSTEMS["period 50, a tenth wrong"].memory(0))
