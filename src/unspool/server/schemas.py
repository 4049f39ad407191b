"""The JSON Schemas of bodies and answers; limits of a server are in them."""

from __future__ import annotations

from typing import Any

from unspool.server.run_files import PAGES
from unspool.server.settings import ServeSettings

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}
ANYTHING: Schema = {"type": "object"}
LARGEST = 2**53
#: Tokens of a text, where a request does not say how many.
DEFAULT_TOKENS = 16
#: Limits of a request: its prompts, the choices for each, the likeliest tokens that are told.
MOST_PROMPTS, MOST_CHOICES, MOST_RANKED = 128, 128, 20
#: Texts before which a text ends, and the characters of each.
MOST_STOPS, LONGEST_STOP = 4, 256
HOTTEST = 100


def record(properties: Schema, *required: str) -> Schema:
    """An object with these names and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def array(items: Schema, **bounds: int) -> Schema:
    """A list."""
    return {"type": "array", "items": items, **bounds}


def either(*schemas: Schema, **more: Any) -> Schema:
    """One of several."""
    return {"anyOf": list(schemas), **more}


def whole(least: int, most: int) -> Schema:
    """A whole number between bounds."""
    return {"type": "integer", "minimum": least, "maximum": most}


def optional(schema: Schema, default: Any = None) -> Schema:
    """Something that may be null."""
    return either(schema, {"type": "null"}, default=default)


ERROR = record(
    {
        "error": record(
            {"message": TEXT, "type": TEXT, "param": optional(TEXT), "code": TEXT}, "message", "type", "param", "code"
        )
    },
    "error",
)
MODEL = record(
    {
        **{"id": TEXT, "object": {"type": "string", "enum": ["model"]}, "created": WHOLE, "owned_by": TEXT},
        **{"task": TEXT, "generates": YES_NO, "streams": YES_NO, "unit": TEXT},
    },
    *("id", "object", "created", "owned_by", "task", "generates", "streams", "unit"),
)
MODELS = record({"object": {"type": "string", "enum": ["list"]}, "data": array(MODEL)}, "object", "data")
STATUS = record({"status": TEXT}, "status")
PREDICTIONS = record({"model": TEXT, "predictions": array(ANYTHING)}, "model", "predictions")
COMPLETION = record(
    {
        **{"id": TEXT, "object": {"type": "string", "enum": ["text_completion"]}, "created": WHOLE, "model": TEXT},
        "choices": array(
            record(
                {"index": WHOLE, "text": TEXT, "finish_reason": optional(TEXT), "logprobs": optional(ANYTHING)},
                *("index", "text", "finish_reason", "logprobs"),
            )
        ),
        "usage": record(
            {"prompt_tokens": WHOLE, "completion_tokens": WHOLE, "total_tokens": WHOLE},
            *("prompt_tokens", "completion_tokens", "total_tokens"),
        ),
    },
    *("id", "object", "created", "model", "choices"),
)
SESSION = record({"id": TEXT, "model": TEXT, "position": WHOLE, "idle": NUMBER}, "id", "model", "position", "idle")
VALUES = array(array(NUMBER))
LIKELY = record({"token": WHOLE, "text": TEXT, "probability": NUMBER}, "token", "text", "probability")
TRACED = array(
    record(
        {
            **{"token": WHOLE, "text": TEXT, "probability": optional(NUMBER), "values": VALUES},
            **{"next": array(LIKELY), "output": optional(array(NUMBER))},
        },
        "values",
    )
)
OUTPUT = record({"position": WHOLE, "output": optional(array(NUMBER)), "trace": TRACED}, "position", "output")
OUTPUTS = record({"position": WHOLE, "outputs": array(array(NUMBER))}, "position", "outputs")
WRITTEN = record(
    {
        **{"position": WHOLE, "text": TEXT, "tokens": array(WHOLE)},
        "finish_reason": {"type": "string", "enum": ["stop", "length"]},
        "trace": TRACED,
    },
    *("position", "text", "tokens", "finish_reason"),
)
EXPLAINED = record({"model": TEXT, "steps": TRACED}, "model", "steps")
IMPORTANCE = record(
    {
        **{"model": TEXT, "measure": {"type": "string", "enum": ["kl", "probability", "value"]}},
        **{"output": optional(WHOLE), "steps": array(TEXT), "importance": array(optional(NUMBER))},
    },
    *("model", "measure", "output", "steps", "importance"),
)
CHANNEL = record(
    {
        **{"layer": WHOLE, "reverse": YES_NO, "name": TEXT, "units": WHOLE, "shown": WHOLE},
        "role": {"type": "string", "enum": ["state", "gate"]},
    },
    *("layer", "reverse", "name", "role", "units", "shown"),
)
ABOUT = record(
    {
        **{"id": TEXT, "task": TEXT, "generates": YES_NO, "streams": YES_NO, "unit": TEXT, "cell": TEXT},
        **{"reads": {"type": "string", "enum": ["text", "words", "numbers", "series"]}, "outputs": array(TEXT)},
        **{"features": array(TEXT), "horizon": WHOLE, "parameters": WHOLE, "channels": array(CHANNEL)},
        "pages": array({"type": "string", "enum": [*PAGES]}),
        "season": WHOLE,
        "scales": array(record({"mean": NUMBER, "deviation": NUMBER}, "mean", "deviation")),
        "limits": record({"tokens": WHOLE, "traced": WHOLE}, "tokens", "traced"),
    },
    *("id", "task", "generates", "streams", "unit", "cell", "reads", "outputs", "features", "horizon"),
    *("parameters", "channels", "pages", "season", "scales", "limits"),
)
CURVES = record(
    {
        "curves": array(
            record({"name": TEXT, "steps": array(WHOLE), "values": array(NUMBER)}, "name", "steps", "values")
        ),
        **{"best_step": optional(WHOLE), "baselines": {"type": "object", "additionalProperties": NUMBER}},
    },
    *("curves", "best_step", "baselines"),
)
TOKENS = record({"model": TEXT, "tokens": array(WHOLE)}, "model", "tokens")
LINK = record({"url": TEXT}, "url")


def tracing() -> Schema:
    """What requests say that want to know what goes on inside."""
    top = {**whole(0, MOST_RANKED), "default": 5}
    return {"trace": {"type": "boolean", "default": False}, "top": top}


def stops() -> Schema:
    """Texts before which a text ends."""
    one = {"type": "string", "minLength": 1, "maxLength": LONGEST_STOP}
    return either(one, array(one, maxItems=MOST_STOPS), {"type": "null"}, default=None)


def sampling(settings: ServeSettings) -> Schema:
    """What all requests for text may say."""
    return {
        "max_tokens": {**whole(1, settings.max_tokens), "default": min(DEFAULT_TOKENS, settings.max_tokens)},
        "temperature": optional({"type": "number", "minimum": 0, "maximum": HOTTEST}, 1.0),
        "top_p": optional({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        "top_k": optional(whole(1, LARGEST)),
        "stop": stops(),
        "seed": optional(whole(0, LARGEST)),
        "stream": {"type": "boolean", "default": False},
    }


def predict_body(settings: ServeSettings) -> Schema:
    """Of a prediction. A text is one example; a list is many, or one series for a forecast."""
    most = settings.max_tokens
    text = {"type": "string", "maxLength": most}
    row = array(NUMBER, maxItems=most)
    example = either(text, NUMBER, array(either(text, NUMBER, row), maxItems=most))
    series = {
        "type": "object",
        "additionalProperties": array(either(NUMBER, row), maxItems=most),
        "maxProperties": most,
    }
    return record(
        {"model": TEXT, "examples": either(text, array(example, maxItems=most, minItems=1), series)}, "examples"
    )


def completion_body(settings: ServeSettings) -> Schema:
    """Of a completion, in the form of OpenAI. What has no effect here is accepted where it asks for none."""
    ids = array({"type": "integer", "minimum": 0}, minItems=1, maxItems=settings.max_tokens)
    prompt = either(
        TEXT, array(TEXT, minItems=1, maxItems=MOST_PROMPTS), ids, array(ids, minItems=1, maxItems=MOST_PROMPTS)
    )
    nothing = optional({"type": "number", "minimum": 0, "maximum": 0})
    own = {
        **{"model": TEXT, "prompt": {**prompt, "default": ""}, "n": optional(whole(1, MOST_CHOICES), 1)},
        **{"logprobs": optional(whole(0, MOST_RANKED)), "echo": optional(YES_NO, False)},
        "stream_options": optional(record({"include_usage": YES_NO, "include_obfuscation": YES_NO})),
        **{"user": optional(TEXT), "presence_penalty": nothing, "frequency_penalty": nothing},
        **{"best_of": optional(whole(1, 1)), "suffix": {"type": "null", "default": None}},
        "logit_bias": optional({"type": "object", "maxProperties": 0}),
    }
    shared = sampling(settings) | {
        "max_tokens": optional(whole(0, settings.max_tokens), min(DEFAULT_TOKENS, settings.max_tokens)),
        "stream": optional(YES_NO, False),
    }
    return record({**own, **shared}, "model")


def tokens_body() -> Schema:
    """Of a text whose tokens are wanted; its length is limited by that of bodies alone."""
    return record({"model": TEXT, "input": TEXT}, "input")


def session_body() -> Schema:
    """Of a new session."""
    return record({"model": TEXT})


def feed_body(settings: ServeSettings) -> Schema:
    """Of what a session reads: a text, ids, words, or rows of numbers."""
    most = settings.max_tokens
    rows = array(either(WHOLE, NUMBER, TEXT, array(NUMBER, maxItems=most)), maxItems=most)
    return record({"input": either(TEXT, rows), **tracing()}, "input")


def explain_body(settings: ServeSettings) -> Schema:
    """Of an example that is to be explained: a text, ids, words, or rows of numbers."""
    most = settings.max_tokens
    rows = array(either(WHOLE, NUMBER, TEXT, array(NUMBER, maxItems=most)), minItems=1, maxItems=most)
    return record({"model": TEXT, "input": either({"type": "string", "maxLength": most}, rows)}, "input")


def step_body(settings: ServeSettings) -> Schema:
    """Of single steps: ids, or rows of numbers."""
    most = settings.max_tokens
    inputs = array(either(WHOLE, array(NUMBER, maxItems=most)), minItems=1, maxItems=most)
    return record(
        {"inputs": inputs, "outputs": {"type": "string", "enum": ["all", "last", "none"], "default": "all"}}, "inputs"
    )


def generate_body(settings: ServeSettings) -> Schema:
    """Of a text that a session writes."""
    return record({**sampling(settings), **tracing()})
