"""Text of unknown origin: nothing in it acts on a terminal, a figure or a page."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unspool.harmless import for_figure, for_page, harmless, is_harmful, shorten, with_code_points

#: Escape sequences, a bell, a C1 control, marks of direction, half a surrogate pair, a delete, an unassigned character.
HOSTILE = "\x1b[31m\x07\r\x9b2J\u202e\u2067\ud800\x7f\u0378"


def test_a_terminal_shows_symbols() -> None:
    assert harmless(HOSTILE) == "␛[31m␇␍\ufffd2J\ufffd\ufffd\ufffd␡\ufffd"
    assert harmless("a\tb\nc") == "a→   b␊c"
    assert harmless("a\nb", lines=True) == "a\nb"
    assert all(character.isprintable() for character in harmless("".join(map(chr, range(0xA0)))))


def test_a_terminal_shows_code_points() -> None:
    assert with_code_points("\x1b[31m \u202e\ud800") == "⟨U+001B⟩[31m ⟨U+202E⟩⟨U+D800⟩"
    assert with_code_points("a\tb\nc") == "a\tb\nc"
    assert with_code_points(HOSTILE).encode("utf-8")


@pytest.mark.parametrize("show", [harmless, with_code_points, for_figure, lambda text: for_page(text, 100)])
def test_scripts_of_all_languages_and_emoji_stay_as_they_are(show: Callable[[str], str]) -> None:
    text = "می\u200cخواهم\u3000·\u00a0👩\u200d🔬🏳️"
    assert show(text) == text
    assert not any(is_harmful(character) for character in text)


def test_a_figure_shows_text_literally_and_short() -> None:
    assert for_figure("<b>a & b</b>") == "&lt;b&gt;a &amp; b&lt;/b&gt;"
    assert for_figure("$x$ %{y}") == "&#36;x&#36; &#37;{y}"
    assert for_figure("a\u202eb\x07\n\t") == "a⟨U+202E⟩b⟨U+0007⟩⏎⇥"
    assert for_figure("a b\u00a0c", token=True) == "a␣b⟨U+00A0⟩c"
    assert for_figure("x" * 10_000) == "x" * 39 + "…"
    assert for_figure("\ud800") == "⟨U+D800⟩"
    assert for_figure("👩\u200d👧 أب 我") == "👩\u200d👧 أب 我"


def test_a_page_gets_text_that_can_be_encoded() -> None:
    assert for_page("a\0\ud800<b>", 100) == "a\ufffd\ufffd<b>"
    assert for_page(3.5, 100) == "3.5"
    assert for_page("x" * 10_000, 5) == shorten("x" * 10_000, 5) == "xxxxx… (10,000 characters)"
    assert shorten("abc", 3) == "abc"
