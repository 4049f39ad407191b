"""Small C functions on texts in UTF-8; a file gets those that it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

LETTER = """\
/* How many bytes the character at a place has. */
static size_t @_letter(const char *text, size_t size, size_t place)
{
    const unsigned char lead = (unsigned char)text[place];
    const size_t wanted = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    size_t count = 1;
    while (count < wanted && place + count < size && ((unsigned char)text[place + count] & 0xc0) == 0x80)
        count++;
    return count;
}
"""
CODE = """\
/* The code point of a character of so many bytes. */
static uint32_t @_code(const char *text, size_t count)
{
    uint32_t code = (unsigned char)text[0];
    code &= count == 1 ? 0xffu : count == 2 ? 0x1fu : count == 3 ? 0x0fu : 0x07u;
    for (size_t i = 1; i < count; i++)
        code = (code << 6) | ((unsigned char)text[i] & 0x3fu);
    return code;
}
"""
IS_SPACE = """\
static int @_is_space(const char *text, size_t count)
{
    static const uint32_t spaces[] = {
@spaces};
    const uint32_t code = @_code(text, count);
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (spaces[i] == code)
            return 1;
    return 0;
}
"""
LOWER = """\
/* A text in lower case, at most `limit` bytes of it; returns how many. Characters that become several stay. */
static size_t @_lower(const char *text, size_t size, char *lowered, size_t limit)
{
    static const uint32_t pairs[][2] = {
@pairs};
    size_t written = 0;
    for (size_t place = 0; place < size;) {
        const size_t count = @_letter(text, size, place);
        uint32_t code = @_code(text + place, count);
        size_t low = 0, high = sizeof pairs / sizeof pairs[0];
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (pairs[middle][0] < code)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < sizeof pairs / sizeof pairs[0] && pairs[low][0] == code)
            code = pairs[low][1];
        else
            code = 0;
        const size_t length = code == 0 ? count : code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        if (written + length > limit)
            break;
        for (size_t i = 0; i < length; i++) {
            const uint32_t lead = length == 1 ? 0 : length == 2 ? 0xc0 : length == 3 ? 0xe0 : 0xf0;
            const uint32_t bits = (code >> (6 * (length - 1 - i))) & (i == 0 ? 0x7fu : 0x3fu);
            lowered[written + i] = code == 0 ? text[place + i] : (char)(i == 0 ? lead | bits : 0x80u | bits);
        }
        written += length;
        place += count;
    }
    return written;
}
"""


@cache
def _is_space() -> str:
    return IS_SPACE.replace("@spaces", rows([code for code in range(0x110000) if chr(code).isspace()]))


@cache
def _lower() -> str:
    pairs = [(code, chr(code).lower()) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    found = [(code, ord(lower)) for code, lower in pairs if len(lower) == 1 and ord(lower) != code]
    texts = [f"{{{code}, {lower}}}" for code, lower in found]
    lines = (", ".join(texts[first : first + 8]) for first in range(0, len(texts), 8))
    return LOWER.replace("@pairs", ",\n".join(f"        {line}" for line in lines))


def rows(numbers: Sequence[int]) -> str:
    """Numbers as lines of an initializer."""
    lines = (numbers[first : first + 20] for first in range(0, len(numbers), 20))
    return ",\n".join(f"        {', '.join(map(str, line))}" for line in lines)


#: In an order in which each may call those before it; the tables are made when one is used.
FUNCTIONS: dict[str, Callable[[], str]] = {
    "letter": lambda: LETTER,
    "code": lambda: CODE,
    "is_space": _is_space,
    "lower": _lower,
}
