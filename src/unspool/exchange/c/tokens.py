"""Tokenizers in C: tables of tokens, and functions from text to ids and back.

Texts are UTF-8. Bytes, characters, words and SMILES are there. Byte pairs and Chinese words are not: for them the
exported model reads and writes ids.
"""

from __future__ import annotations

from unspool.data.vocabulary import END_OF_LINE, Vocabulary
from unspool.exchange.c.source import Source
from unspool.exchange.c.text_library import rows

KINDS = ("byte", "char", "word", "smiles")
REPLACEMENT = "\ufffd"

FIND = """\
/* The id of a whole token; @unknown where there is none. */
static int32_t @_@part@find(const char *text, size_t size)
{
    size_t low = 0, high = @count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int32_t number = @_@part@order[middle];
        const unsigned char *const token = @_@part@letters + @_@part@starts[number];
        const size_t length = @_@part@starts[number + 1] - @_@part@starts[number];
        size_t i = 0;
        while (i < size && i < length && (unsigned char)text[i] == token[i])
            i++;
        if (i == size && i == length)
            return number + @offset;
        if (i == length || (i < size && (unsigned char)text[i] > token[i]))
            low = middle + 1;
        else
            high = middle;
    }
    return @unknown;
}
"""
#: Statements that set `count`, the bytes of the token at `*place`, of each kind of tokenizer.
MEASURES = {
    "char": ["const size_t count = @_letter(text, size, *place);"],
    "smiles": [
        "size_t count = @_letter(text, size, *place), end = *place + 1;",
        "const char now = text[*place], next = *place + 1 < size ? text[*place + 1] : 0;",
        "if ((now == 'B' && next == 'r') || (now == 'C' && next == 'l') || (now == '@' && next == '@'))",
        "    count = 2;",
        "if (now == '%' && *place + 2 < size && next >= '0' && next <= '9' && text[*place + 2] >= '0'",
        "    && text[*place + 2] <= '9')",
        "    count = 3;",
        "while (now == '[' && end < size && text[end] != ']' && text[end] != '['",
        "       && !@_is_space(text + end, @_letter(text, size, end)))",
        "    end += @_letter(text, size, end);",
        "if (now == '[' && end < size && text[end] == ']')",
        "    count = end + 1 - *place;",
    ],
    "word": [
        "while (*place < size && text[*place] != '\\n' && @_is_space(text + *place, @_letter(text, size, *place)))",
        "    *place += @_letter(text, size, *place);",
        "if (*place >= size)",
        "    return 0;",
        "size_t count = text[*place] == '\\n' ? 1 : 0;",
        "while (text[*place] != '\\n' && *place + count < size",
        "       && !@_is_space(text + *place + count, @_letter(text, size, *place + count)))",
        "    count += @_letter(text, size, *place + count);",
    ],
}


def write_tokenizer(
    source: Source, vocabulary: Vocabulary | None, part: str = "", lowercase: bool = False, offset: int = 0
) -> bool:
    """Write `next_token`, `encode` and `token_text` of a vocabulary.

    Args:
        source: The file.
        vocabulary: Its tokens; None: nothing is written.
        part: What stands before the names, for a second vocabulary in a file.
        lowercase: Whether texts are lowercased.
        offset: The id of the first token.

    Returns:
        Whether this tokenizer can be exported.
    """
    if vocabulary is None or vocabulary.kind not in KINDS or (lowercase and vocabulary.kind == "smiles"):
        return False  # in lower case, atoms of two letters are two tokens
    if vocabulary.kind == "byte":
        _write_bytes(source, part, offset)
    else:
        _write_listed(source, vocabulary, part, lowercase, offset)
    source.export(
        "The ids of a text, at most `limit`; returns how many there are.",
        f"size_t @_{part}encode(const char *text, size_t size, int32_t *ids, size_t limit)",
        [
            "size_t place = 0, first, count, found = 0;",
            "int32_t id;",
            f"for (; @_{part}next_token(text, size, &place, &id, &first, &count); found++)",
            "    if (found < limit)",
            "        ids[found] = id;",
            "return found;",
        ],
    )
    return True


NEXT = (
    "The next token of a text from `place` on, and where it stands; returns 0 at the end.",
    "int @_{}next_token(const char *text, size_t size, size_t *place, int32_t *id, size_t *first, size_t *count)",
)


def _write_bytes(source: Source, part: str, offset: int) -> None:
    comment, head = NEXT
    source.export(
        comment,
        head.format(part),
        [
            "if (*place >= size)",
            "    return 0;",
            f"*id = (unsigned char)text[*place] + {offset};",
            "*first = (*place)++;",
            "*count = 1;",
            "return 1;",
        ],
    )
    letters = ", ".join(map(str, range(256)))
    source.function(f"static const unsigned char @_{part}letters[] = {{\n    {letters}}};\n")
    source.export(
        "The text of a token.",
        f"const char *@_{part}token_text(int32_t id, size_t *size)",
        ["*size = 1;", f"return (const char *)@_{part}letters + ((id - {offset}) & 255);"],
    )


def _write_listed(source: Source, vocabulary: Vocabulary, part: str, lowercase: bool, offset: int) -> None:
    tokens = [token.encode() for token in vocabulary.dump()["tokens"]]
    texts = [REPLACEMENT.encode() if vocabulary.kind != "word" else tokens[0], *tokens[1:]]
    if vocabulary.kind == "word":  # the end of a line is one
        texts = [b"\n" if token == END_OF_LINE.encode() else token for token in texts]
    order = sorted(range(1, len(texts)), key=lambda number: texts[number])
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text))
    _write_tables(source, part, texts, starts, order)
    unknown = str(offset)
    named = {"@part@": part, "@count": str(len(order)), "@offset": str(offset), "@unknown": unknown}
    text = FIND
    for name, value in named.items():
        text = text.replace(name, value)
    source.function(text)
    _write_next(source, vocabulary.kind, part, lowercase, max(map(len, texts)))
    source.export(
        "The text of a token.",
        f"const char *@_{part}token_text(int32_t id, size_t *size)",
        [
            f"const int32_t number = id >= {offset} && id < {len(texts) + offset} ? id - {offset} : 0;",
            f"*size = @_{part}starts[number + 1] - @_{part}starts[number];",
            f"return (const char *)@_{part}letters + @_{part}starts[number];",
        ],
    )


def _write_tables(source: Source, part: str, texts: list[bytes], starts: list[int], order: list[int]) -> None:
    source.function(
        f"/* The bytes of all tokens, where each starts, and their numbers in the order of their bytes. */\n"
        f"static const unsigned char @_{part}letters[] = {{\n{rows([*b''.join(texts)] or [0])}}};\n"
        f"static const uint32_t @_{part}starts[] = {{\n{rows(starts)}}};\n"
        f"static const int32_t @_{part}order[] = {{\n{rows(order or [0])}}};\n"
    )


def _write_next(source: Source, kind: str, part: str, lowercase: bool, longest: int) -> None:
    comment, head = NEXT
    lookup = [f"*id = @_{part}find(text + *place, count);"]
    if lowercase:
        lookup = [
            f"char lowered[{longest + 4}];",
            f"const size_t length = @_lower(text + *place, count, lowered, {longest + 4});",
            f"*id = @_{part}find(lowered, length);",
        ]
    body = ["if (*place >= size)", "    return 0;", *MEASURES[kind], *lookup]
    body += ["*first = *place;", "*count_out = count;", "*place += count;", "return 1;"]
    source.export(comment, head.format(part).replace("size_t *count)", "size_t *count_out)"), body)


NGRAMS = """\
size_t @_hash_ngrams(const char *word, size_t size, uint32_t *hashes, size_t limit)
{
    char marked[1026];
    const size_t length = @_lower(word, size, marked + 1, 1024) + 2;
    size_t found = 0;
    marked[0] = '<';
    marked[length - 1] = '>';
    for (int wanted = 3; wanted <= 5; wanted++)
        for (size_t first = 0; first < length; first += @_letter(marked, length, first)) {
            size_t end = first;
            int letters = 0;
            for (; letters < wanted && end < length; letters++)
                end += @_letter(marked, length, end);
            if (letters == wanted && found < limit)
                hashes[found] = @_crc32(0, (const unsigned char *)marked + first, end - first);
            found += letters == wanted;
        }
    return found < limit ? found : limit;
}
"""


def write_ngrams(source: Source) -> None:
    """Write `hash_ngrams`: what a model with subwords reads besides the id of a word."""
    source.public.append(
        "/* The hashes of the n-grams of a word, at most `limit`; of longer words, those of the first 1024 bytes. */\n"
        "size_t @_hash_ngrams(const char *word, size_t size, uint32_t *hashes, size_t limit);\n"
    )
    source.function(NGRAMS)
