"""Texts in the reader's language: English in the code, other languages in catalogues beside this file.

A catalogue is a folder of TOML files. Each entry has the English text as its key, with the same placeholders:

    "{count} chapters" = "共 {count} 章"

A text with values is a `Message`. It is an ordinary English string that remembers its template and its values, so that
it can be written in another language later.
"""

from __future__ import annotations

import locale
import os
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache, reduce
from importlib import resources
from string import Formatter
from typing import Any

from unspool.errors import UnknownNameError

ENGLISH = "en"
#: Language → its name in that language. English needs no catalogue.
LANGUAGES: Mapping[str, str] = {ENGLISH: "English", "zh": "中文"}


class Message(str):
    """An English text made from a template and values.

    Args:
        template: English, with placeholders in braces as for `str.format`.
        values: what they stand for. A value may be a `Message` itself.

    Example:
        >>> text = Message("{count} of {total} chapters", count=2, total=57)
        >>> text, text.template
        ('2 of 57 chapters', '{count} of {total} chapters')
    """

    template: str
    values: Mapping[str, Any]

    def __new__(cls, template: str, **values: Any) -> Message:
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles keep the template and the values."""
        return _remake, (self.template, dict(self.values))


def _remake(template: str, values: Mapping[str, Any]) -> Message:
    return Message(template, **values)


def words(text: str) -> Message:
    """A text without placeholders as a message, so that it is translated inside another one.

    Example:
        >>> Message("{measure}: done", measure=words("time constants"))
        'time constants: done'
    """
    return Message(text.replace("{", "{{").replace("}", "}}"))


def listed(texts: Iterable[str]) -> str:
    """Texts with commas between them; those that are messages stay translatable.

    Example:
        >>> listed(["h", words("gate"), "c"])
        'h, gate, c'
    """
    found = list(texts)
    return reduce(lambda one, other: Message("{one}, {other}", one=one, other=other), found) if found else ""


class Translator:
    """Writes texts in one language.

    Args:
        language: a key of `LANGUAGES`.

    Attributes:
        missing: templates that were asked for and are not in the catalogue; they stay English.

    Example:
        >>> Translator("en")("holds")
        'holds'
    """

    def __init__(self, language: str = ENGLISH) -> None:
        if language not in LANGUAGES:
            raise UnknownNameError.among("lang", language, LANGUAGES)
        self.language = language
        self.missing: set[str] = set()
        self._catalogue = {} if language == ENGLISH else read_catalogue(language)

    def __call__(self, text: str) -> str:
        """The text in this language; English where the catalogue does not have it."""
        if self.language == ENGLISH or not text.strip():
            return str(text)
        template = text.template if isinstance(text, Message) else text
        written = self._catalogue.get(template)
        if written is None:
            self.missing.add(template)
            return str(text)
        if not isinstance(text, Message):
            return written
        values = {name: self(one) if isinstance(one, Message) else one for name, one in text.values.items()}
        return written.format(**values)


def at_least(bound: object) -> str:
    """What stands before a number that is only a lower bound; nothing before one that is known."""
    return Message("at least ") if bound else ""


@cache
def read_catalogue(language: str) -> Mapping[str, str]:
    """All entries of a language: English text → text in that language."""
    folder = resources.files(__package__).joinpath(language)
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    entries: dict[str, str] = {}
    for file in files:
        entries |= tomllib.loads(file.read_text(encoding="utf-8"))
    return entries


def placeholders(template: str) -> set[str]:
    """The names in braces of a template."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def choose_language(wanted: str | None = None) -> str:
    """The language that is wanted; by default that of the locale, or English if there is no catalogue for it.

    Args:
        wanted: a key of `LANGUAGES`, or None.

    Returns:
        A key of `LANGUAGES`.

    Example:
        >>> choose_language("zh")
        'zh'
    """
    if wanted is not None:
        return Translator(wanted).language
    variables = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    spoken = next((value for value in variables if value), None) or locale.getlocale()[0] or ""
    short = spoken.lower().replace("chinese", "zh")[:2]
    return short if short in LANGUAGES else ENGLISH
