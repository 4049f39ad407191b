"""TextStream: generated ids as text that is safe to print, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unspool.decoding.sampling import check_ids
from unspool.errors import ArgumentError, ArgumentTypeError


class TextStream:
    """Ids in, one by one; text out that no later id can change, up to the first of the stop strings.

    The text does not depend on how it is divided into ids.

    Args:
        decode: A vocabulary's. Later ids may add to its text and may turn at most three characters U+FFFD at its end
            into others: a character of UTF-8 has at most four bytes. The text of an id must not depend on more than
            the `CONTEXT` ids before it, since only these are remembered.
        stop: Strings at which the text ends.
        context: Ids before the first one, such as the prompt: their text is not returned, but the space between the
            last word of the prompt and the next one is.

    Example:
        stream = TextStream(vocabulary.decode, stop=("\\n",))
        text = "".join(stream.push(token) for token in ids) + stream.finish()
    """

    # three U+FFFD may hide nine bytes, and a window that starts within a character three more
    CONTEXT, LONGEST = 16, 32

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = (), context: Sequence[int] = ()
    ) -> None:
        if isinstance(stop, str) or not all(isinstance(string, str) for string in stop):
            raise ArgumentTypeError.of("stop", stop, "is not a tuple of strings", 'Give, for example, stop=("\\n\\n",)')
        if "" in stop:
            raise ArgumentError.of("stop", stop, "has an empty string, at which all text stops", "Leave it out")
        self.stopped = False
        self._decode, self._stop = decode, tuple(stop)
        self._recent = check_ids("context", context[-self.CONTEXT :])
        self._text = decode(self._recent)  # of the recent ids
        self._given = len(self._text)  # of the text, the characters that are settled and need no second look
        self._held = ""  # settled, but it may be the beginning of a stop string

    def push(self, token: int) -> str:
        """The text that is certain after this id; nothing after a stop string."""
        if self.stopped:
            return ""
        self._recent.append(token)
        self._text = self._decode(self._recent)
        broken = len(self._text) - len(self._text.rstrip("\ufffd"))
        new = self._settle(len(self._text) - min(broken, 3))
        if len(self._recent) > self.LONGEST:
            unsettled = len(self._text) - self._given
            self._recent = self._recent[-self.CONTEXT :]
            self._text = self._decode(self._recent)
            self._given = len(self._text) - unsettled
        return self._release(new)

    def finish(self) -> str:
        """The text that was held back, when no more ids come."""
        if self.stopped:
            return ""
        text = self._release(self._settle(len(self._text)))
        rest, self._held = self._held, ""
        return text + rest

    def _settle(self, end: int) -> str:
        """The text that is settled up to `end` and was not before."""
        new = self._text[self._given : end]
        self._given = max(self._given, end)
        return new

    def _release(self, new: str) -> str:
        """The text that may be shown. The stop string that is complete first counts; the longest, if several are."""
        text = self._held + new
        found = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        begun = [size for stop in self._stop for size in range(1, len(stop)) if text.endswith(stop[:size])]
        end = len(text) - max(begun, default=0)
        self._held = text[end:]
        return text[:end]


def read_stops(stop: Any) -> tuple[str, ...]:
    """Stop strings from what a user gives: one string, several, or None for none.

    Example:
        >>> read_stops("end"), read_stops(None)
        (('end',), ())
    """
    if stop is None:
        return ()
    if not isinstance(stop, str | list | tuple | set | frozenset):
        raise ArgumentTypeError.of("stop", stop, "is neither a text nor a list of texts", 'Give, for example, "\\n"')
    return (stop,) if isinstance(stop, str) else tuple(stop)
