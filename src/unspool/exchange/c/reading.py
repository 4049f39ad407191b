"""C functions of exported programs that read arguments and standard input: counts, lines, ids and numbers."""

from __future__ import annotations

#: The longest lines that programs read: the time and memory of a model grow with them. Texts, and numbers.
LONGEST_TEXT, LONGEST_NUMBERS = 65_536, 16_777_216
READ_LINE = """\
/* The longest line in bytes; another limit can be given to the compiler. */
#ifndef @@_LINE_LIMIT
#define @@_LINE_LIMIT @limit
#endif

static unsigned long @_lines; /* that were read */
static int @_failed;

/* Say what is wrong with the last line; returns the exit code. */
static int @_complain(const char *problem)
{
    fprintf(stderr, "line %lu %s\\n", @_lines, problem);
    return 1;
}

/* A line without its end, which the caller frees; NULL at the end of the input, and where reading failed. */
static char *@_read_line(void)
{
    size_t size = 0, room = 256;
    int letter = getchar();
    if (letter == EOF)
        return NULL;
    char *line = malloc(room);
    @_lines++;
    for (; line != NULL && size <= @@_LINE_LIMIT && letter != EOF && letter != '\\n'; letter = getchar()) {
        if (size + 2 > room) {
            char *const longer = realloc(line, room *= 2);
            if (longer == NULL)
                free(line);
            line = longer;
        }
        if (line != NULL)
            line[size++] = (char)letter;
    }
    if (line == NULL || size > @@_LINE_LIMIT) {
        char problem[64];
        snprintf(problem, sizeof problem, "is longer than %lu bytes", (unsigned long)@@_LINE_LIMIT);
        @_failed = @_complain(line == NULL ? "does not fit into the memory" : problem);
        free(line);
        return NULL;
    }
    line[size] = 0;
    return line;
}
"""
FLOATS = """\
/* Memory for so many floats, which the caller frees; where there is none, NULL and a message. */
static float *@_floats(size_t count)
{
    float *const found = count == SIZE_MAX ? NULL : malloc((count + 1) * sizeof *found);
    if (found == NULL)
        fprintf(stderr, "there is not enough memory\\n");
    return found;
}
"""
READ_COUNT = """\
/* Read a whole number from 0 to `limit`; returns whether the text is one. */
static int @_read_count(const char *text, uint32_t limit, uint32_t *count)
{
    uint64_t value = 0;
    const char *digit = text;
    for (; *digit >= '0' && *digit <= '9' && value <= limit; digit++)
        value = value * 10 + (uint64_t)(*digit - '0');
    if (digit == text || *digit != 0 || value > limit)
        return 0;
    *count = (uint32_t)value;
    return 1;
}
"""
ALL_FINITE = """\
static int @_all_finite(const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((@_as_bits(numbers[i]) & 0x7f800000u) == 0x7f800000u)
            return 0;
    return 1;
}
"""
READ_IDS = """\
/* Ids of a line with numbers, between spaces or commas, at most `limit`; returns how many there are, and SIZE_MAX where
   one is not an id from 0 to below `tokens`. */
static size_t @_read_ids(const char *line, int32_t *ids, size_t limit, int32_t tokens)
{
    size_t found = 0;
    for (;;) {
        int32_t id = 0;
        while (*line == ',' || *line == ' ' || *line == '\\t' || *line == '\\r')
            line++;
        if (*line == 0)
            return found;
        for (; *line >= '0' && *line <= '9' && id < tokens; line++)
            id = id < 100000000 ? id * 10 + (*line - '0') : tokens;
        if ((*line != 0 && *line != ',' && *line != ' ' && *line != '\\t' && *line != '\\r') || id >= tokens)
            return SIZE_MAX;
        if (found < limit)
            ids[found] = id;
        found++;
    }
}
"""
READ_NUMBERS = """\
/* Numbers of a line, between spaces, commas or semicolons, at most `limit`; returns how many there are, and SIZE_MAX
   where one is no number, or beyond what a float can hold. */
static size_t @_read_numbers(const char *line, float *numbers, size_t limit)
{
    size_t found = 0;
    for (;;) {
        char *end;
        while (*line == ',' || *line == ';' || *line == ' ' || *line == '\\t' || *line == '\\r')
            line++;
        const double value = strtod(line, &end);
        if (end == line && *line == 0)
            return found;
        if (end == line || !(value > -3.4028235677973366e38 && value < 3.4028235677973366e38))
            return SIZE_MAX;
        if (found < limit)
            numbers[found] = (float)value;
        found++;
        line = end;
    }
}
"""
