"""From what a user wants to search to the values of each setting, checked before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unspool.errors import ArgumentError, UnspoolError
from unspool.runs.config import Config
from unspool.runs.effects import keep_effective
from unspool.runs.train import plan
from unspool.settings.catalogue import SECTIONS, SETTINGS, find_task_settings, suggest
from unspool.settings.search import USUAL, Choices, Space, Span, fit_space, read_search
from unspool.tasks.contract import Task

#: Settings that do not make a better model, but another comparison.
NOT_COMPARABLE = ("seed", "device", "baselines", "loss_reduction", "eval_every", "eval_limit", "checkpoint_every")


@dataclass(frozen=True)
class Search:
    """What is searched.

    Attributes:
        spaces: The values of each setting.
        base: The values that a run would have without a search.
    """

    spaces: Mapping[str, Space]
    base: Mapping[str, Any]

    @property
    def has_base(self) -> bool:
        """Whether the settings of a run without a search are among those that are searched."""
        return all(space.holds(self.base[name]) for name, space in self.spaces.items())

    def options(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What a trial's run is given beside the shared config: the settings in which it differs from that."""
        return {name: value for name, value in settings.items() if value != self.base[name]}


def make_search(given: Any, config: Config, task: Task) -> Search:
    """The values of the settings that a user names, or of the usual ones.

    Args:
        given: What `read_search` reads.
        config: The settings of a run without a search.
        task: With its data, whose size decides on some of the values.

    Raises:
        ArgumentError: A setting is not known, or has no values to search.
    """
    wanted = read_search(given)
    held = {name: value for section in SECTIONS for name, value in getattr(config, section)}
    if not wanted:
        usual = {name: held[name] for name in USUAL}
        wanted = dict.fromkeys(keep_effective(usual, held, find_task_settings(config.task.name)))
        wanted = {name: None for name in wanted if not isinstance(held[name], tuple | str) or name == "cell"}
    for name in wanted:
        _check_name(name, config.task.name)
    sequences = count_sequences(config, task)
    base = {name: _plain(held[name]) for name in wanted}
    spaces = {
        name: fit_space(name, SETTINGS[name].search, base[name], sequences) if space is None else space
        for name, space in wanted.items()
    }
    return Search(spaces, base)


def _plain(value: Any) -> Any:
    """A value for JSON: the name of a cell."""
    return str(value) if isinstance(value, str) else value


def _check_name(name: str, task: str) -> None:
    """Refuse what cannot be searched."""
    known = [one.name for one in SETTINGS.values() if task in one.tasks and one.section != "data"]
    if name not in known:
        if name in SETTINGS:
            problem = f"is a setting of {', '.join(SETTINGS[name].tasks)}, and the task is {task}"
            if task in SETTINGS[name].tasks:
                problem = "is a setting of the data, and trials are compared on the same data"
            raise ArgumentError.of("search", name, problem, "Leave it out")
        raise ArgumentError(f"`search` (={name!r}) {suggest(name, known)}")
    if name in NOT_COMPARABLE:
        raise ArgumentError.of("search", name, "does not make trials better, but their metrics", "Leave it out")


def check_values(spaces: Mapping[str, Space], config: Path, base: Mapping[str, Any]) -> None:
    """Refuse values with which a run could not start; `config` has the settings that all trials share."""
    for name, space in spaces.items():
        for value in space.examples():
            if value == base[name]:
                continue
            try:
                plan(config=config, **{name: value})
            except UnspoolError as error:
                problem = f"has a value that cannot be used: {str(error).removesuffix('.')}"
                raise ArgumentError.of("search", f"{name}={value}", problem, "Give other values") from error


def count_sequences(config: Config, task: Task) -> int:
    """Sequences of training data per epoch."""
    training = config.training
    window = None if training.bptt == "all" else training.bptt
    return len(task.batches(training.batch_size, window, 0, 0, 1)) * int(training.batch_size)


def dump_space(space: Space) -> dict[str, Any]:
    """A space for JSON."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(space).items()}


def load_space(document: Mapping[str, Any]) -> Space:
    """The space that `dump_space` wrote."""
    return Choices(tuple(document["values"])) if "values" in document else Span(**document)
