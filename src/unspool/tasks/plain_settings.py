"""Settings of data without their checks, for where a run's config is read without the package that checks it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

Settings = TypeVar("Settings")


class PlainSettings(SimpleNamespace):
    """Settings as attributes; those that are not there are None, as a config leaves out what is None.

    Example:
        >>> data = PlainSettings.of(tomllib.loads(Path("runs/intents/config.toml").read_text())["data"])
        >>> task = Classification.restore(document, data)
    """

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> PlainSettings:
        """From a section of a config: lists become tuples, as settings are not changed."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in section.items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "model_copy":
            raise AttributeError(name)
        return None


def with_changes(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """A copy of settings with other values, which are not checked.

    Args:
        settings: A section of a config, or any object with the attributes and a constructor that takes them.
        changes: Names and values.

    Example:
        >>> with_changes(SimpleNamespace(horizon=3), {"horizon": 6})
        namespace(horizon=6)
    """
    if hasattr(settings, "model_copy"):
        copied: Settings = settings.model_copy(update=dict(changes))
        return copied
    return type(settings)(**{**vars(settings), **changes})
