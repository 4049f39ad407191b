"""Text of unknown origin, made harmless for the place that shows it: a terminal, a figure, a page.

Tokens, file names and generated text may hold anything. Escape sequences act on a terminal, marks of direction turn the
rest of a line around, half a surrogate pair cannot be encoded, markup becomes part of a page.
"""

from __future__ import annotations

import unicodedata

#: Joiners are part of how Persian, Indian scripts and emoji are written.
JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
#: Stands for a character that cannot be shown and has no symbol of its own.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
TAB = "→   "

# plotly reads some HTML, $formulas$ and %{templates} in texts; as entities these signs are only signs.
_PLOTLY = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "%": "&#37;", "\n": "⏎", "\r": "␍", "\t": "⇥"}


def is_harmful(character: str) -> bool:
    """Whether a character acts on what surrounds it or cannot be shown: controls, formats, surrogates, unassigned."""
    if character.isprintable() or character in JOINERS:
        return False
    # Spaces of other widths are not "printable", but they do no harm. Private characters may be a font's.
    return unicodedata.category(character) not in ("Zs", "Co")


def harmless(text: str, lines: bool = False) -> str:
    """Text for a terminal, with a symbol in place of each control character.

    Args:
        text: any text.
        lines: keep line feeds.

    Returns:
        The text with symbols such as ␛ and ␇, and � for what has no symbol.

    Example:
        >>> harmless("a\\x1b[31m")
        'a␛[31m'
    """
    return "".join(character if lines and character == "\n" else _symbol(character) for character in text)


def _symbol(character: str) -> str:
    if not is_harmful(character):
        return character
    if character == "\t":
        return TAB
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))  # Unicode's pictures of control characters
    return "\N{SYMBOL FOR DELETE}" if ord(character) == 0x7F else REPLACEMENT


def with_code_points(text: str) -> str:
    """Text for a terminal, with the code point in place of each control character; white space is kept.

    Example:
        >>> with_code_points("a\\x1b[31m")
        'a⟨U+001B⟩[31m'
    """
    return "".join(
        code_point(character) if is_harmful(character) and not character.isspace() else character for character in text
    )


def for_figure(text: str, limit: int = 40, token: bool = False) -> str:
    """Text that plotly shows literally.

    Args:
        text: any text.
        limit: longest result, in characters before escaping.
        token: the text is a token, whose spaces must be seen.

    Returns:
        The text with plotly's signs as entities and control characters as code points.

    Example:
        >>> for_figure("<b>a b</b>", token=True)
        '&lt;b&gt;a␣b&lt;/b&gt;'
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    shown = "".join(_figure_sign(character, token) for character in cut)
    return text if shown == text else shown  # a message stays one, so that it can be translated


def _figure_sign(character: str, token: bool) -> str:
    if character in _PLOTLY:
        return _PLOTLY[character]
    if character == " ":
        return "␣" if token else character
    hidden = ("Co", "Zs") if token else ("Co",)  # no font of a browser shows private characters
    if is_harmful(character) or unicodedata.category(character) in hidden:
        return code_point(character)
    return character


def for_page(text: object, longest: int) -> str:
    """Text for an HTML template that escapes it: shortened, and without what UTF-8 or HTML cannot hold.

    Args:
        text: anything; its `str` is shown.
        longest: characters to keep.

    Returns:
        Text that can be encoded. It is not escaped: the template does that.

    Example:
        >>> for_page("abcdef", 3)
        'abc… (6 characters)'
    """
    whole = shorten(str(text), longest).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", REPLACEMENT)


def shorten(text: str, longest: int) -> str:
    """The text, or its beginning with the number of characters that it has in all."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def code_point(character: str) -> str:
    """The name of a character by its number, such as ⟨U+202E⟩."""
    return f"⟨U+{ord(character):04X}⟩"
