"""C functions of exported programs that read standard input: lines, ids and numbers."""

from __future__ import annotations

READ_LINE = """\
/* A line of any length without its end, which the caller frees; NULL at the end of the input. */
static char *@_read_line(void)
{
    size_t size = 0, room = 256;
    char *line = malloc(room);
    int letter = getchar();
    if (letter == EOF || line == NULL) {
        free(line);
        return NULL;
    }
    for (; letter != EOF && letter != '\\n'; letter = getchar()) {
        if (size + 2 > room) {
            char *const longer = realloc(line, room *= 2);
            if (longer == NULL) {
                free(line);
                return NULL;
            }
            line = longer;
        }
        line[size++] = (char)letter;
    }
    line[size] = 0;
    return line;
}
"""
READ_IDS = """\
/* Ids of a line with numbers, at most `limit`; returns how many there are. */
static size_t @_read_ids(const char *line, int32_t *ids, size_t limit)
{
    size_t found = 0;
    char *end;
    for (long id = strtol(line, &end, 10); end != line; id = strtol(line, &end, 10), found++) {
        if (found < limit)
            ids[found] = (int32_t)id;
        line = end;
    }
    return found;
}
"""
READ_NUMBERS = """\
/* Numbers of a line, between spaces, commas or semicolons, at most `limit`; returns how many there are. */
static size_t @_read_numbers(const char *line, float *numbers, size_t limit)
{
    size_t found = 0;
    for (;;) {
        char *end;
        while (*line == ',' || *line == ';' || *line == ' ' || *line == '\\t' || *line == '\\r')
            line++;
        const float value = (float)strtod(line, &end);
        if (end == line)
            return found;
        if (found < limit)
            numbers[found] = value;
        found++;
        line = end;
    }
}
"""
