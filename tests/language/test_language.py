"""Texts in other languages: messages keep their values, catalogues keep the placeholders."""

from __future__ import annotations

import pytest

from unspool import language
from unspool.errors import UnknownNameError
from unspool.language import LANGUAGES, Message, Translator, choose_language, placeholders, read_catalogue


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of two entries."""
    entries = {"{count} chapters": "共 {count} 章", "chapter {name}": "章节 {name}", "adding": "加法"}
    monkeypatch.setattr(language, "read_catalogue", lambda _: entries)


def test_a_message_is_its_english_text() -> None:
    message = Message("{value:.2f} of {whole}", value=0.126, whole="all")
    assert message == "0.13 of all"
    assert isinstance(message, str)


@pytest.mark.usefixtures("catalogue")
def test_values_are_put_into_the_other_languages_text() -> None:
    translate = Translator("zh")
    assert translate(Message("{count} chapters", count=57)) == "共 57 章"
    assert translate(Message("chapter {name}", name=Message("adding"))) == "章节 加法"
    assert translate("adding") == "加法"
    assert not translate.missing


@pytest.mark.usefixtures("catalogue")
def test_what_is_missing_stays_english_and_is_noted() -> None:
    translate = Translator("zh")
    assert translate(Message("{count} pages", count=2)) == "2 pages"
    assert translate.missing == {"{count} pages"}


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="`lang` \\(='de'\\) is not known"):
        Translator("de")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "C"}, "en"),
    ],
)
def test_the_locale_decides(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert choose_language() == expected
    assert choose_language("zh") == "zh"


@pytest.mark.parametrize("name", [one for one in LANGUAGES if one != "en"])
def test_catalogues_keep_placeholders(name: str) -> None:
    for english, other in read_catalogue(name).items():
        assert placeholders(english) == placeholders(other), english
        assert other.strip()
