"""ServeSettings: how a server runs and what it allows, from arguments, the environment and a TOML file."""

from __future__ import annotations

import hashlib
import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from unspool.errors import ArgumentError, ArgumentTypeError, DataError, UnknownNameError

PREFIX = "UNSPOOL_SERVE_"
#: The fewest characters of a token.
SHORTEST_TOKEN = 8
MOST_WORKERS = 256
#: How an address of Redis begins.
REDIS = ("redis://", "rediss://", "unix://")
#: Settings whose values no message has.
SECRETS = ("token", "redis")


@dataclass(frozen=True)
class ServeSettings:
    """How a server runs and what it allows.

    Attributes:
        host: The address to bind.
        port: The port; 0: any free one.
        token: Tokens of callers, any of which is accepted; none: everybody who can reach the server.
        allow_host: More names by which clients may call the server.
        max_body: Bytes of a request's body, and of a WebSocket message.
        max_tokens: Tokens, or steps, of one request.
        max_sessions: Sessions at a time; each token may have an equal share of them.
        idle: Seconds after which a session that nobody uses is dropped.
        queue: Requests that wait for a place in the batch of a model.
        timeout: Seconds of one request.
        batch_size: Sessions that step together.
        threads: Threads of a model; None: as many as there are cores.
        int8: Play models with matrices of 8 bits.
        access_log: Whether each request is logged.
        workers: Processes that serve.
        redis: The address of a Redis that keeps sessions; None: they are in the memory of the process.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: tuple[str, ...] = field(default=(), repr=False)
    allow_host: tuple[str, ...] = ()
    max_body: int = 1_000_000
    max_tokens: int = 4_096
    max_sessions: int = 1_024
    idle: float = 600.0
    queue: int = 128
    timeout: float = 30.0
    batch_size: int = 1_024
    threads: int | None = None
    int8: bool = False
    access_log: bool = True
    workers: int = 1
    redis: str | None = field(default=None, repr=False)  # it may have a password

    def __post_init__(self) -> None:
        for name in ("max_body", "max_tokens", "max_sessions", "queue", "batch_size", "timeout", "idle"):
            value = getattr(self, name)
            if not 0 < value < 1e12:  # NaN is neither
                raise ArgumentError.of(name, value, "is not a positive number", "Leave it out for the default")
        if not 0 <= self.port < 65536:
            raise ArgumentError.of("port", self.port, "is not a port", "Give a number from 0 to 65535")
        self._check_tokens()
        self._check_workers()

    @property
    def owners(self) -> tuple[bytes, ...]:
        """Those who may have sessions: a digest of each token, or nobody in particular where there is none."""
        return tuple(hashlib.sha256(token.encode()).digest() for token in self.token) or (b"",)

    @property
    def session_share(self) -> int:
        """Sessions that one owner may have at a time."""
        return max(1, self.max_sessions // len(self.owners))

    def _check_tokens(self) -> None:
        for token in self.token:  # the value is a secret, and no message has it
            if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
                problem = f"is not {SHORTEST_TOKEN} or more visible ASCII characters"
                raise ArgumentError.of("token", "…", problem, "Make one: openssl rand -hex 16")
        if not self.token and not is_local(self.host):
            problem = "can be reached from other machines, and anybody could use the models"
            raise ArgumentError.of("host", self.host, problem, "Give a `token`, or leave `host` out")

    def _check_workers(self) -> None:
        if not 0 < self.workers <= MOST_WORKERS:
            remedy = f"Give a number from 1 to {MOST_WORKERS}"
            raise ArgumentError.of("workers", self.workers, "is not a number of processes", remedy)
        if self.redis is not None and not self.redis.startswith(REDIS):
            problem = f"does not begin with {', '.join(REDIS)}"
            raise ArgumentError.of("redis", "…", problem, "Give an address like redis://127.0.0.1:6379/0")
        if self.workers > 1 and self.redis is None:
            problem = "needs sessions that all workers can reach"
            remedy = "Give `redis` with an address like redis://127.0.0.1:6379/0, or leave `workers` out"
            raise ArgumentError.of("workers", self.workers, problem, remedy)


def is_local(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def gather(given: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None) -> dict[str, Any]:
    """Settings by name; what is `given` counts more than the environment, and that more than the file.

    Args:
        given: Arguments; None where one was not given.
        environment: Variables, of which `UNSPOOL_SERVE_…` are read.
        config: A TOML file.

    Returns:
        Arguments of `ServeSettings`, and `runs`.

    Example:
        >>> gather({"port": 8001}, {"UNSPOOL_SERVE_PORT": "8002"})["port"]
        8001
    """
    kinds = {one.name: str(one.type) for one in fields(ServeSettings)} | {"runs": "tuple[str, ...]"}
    found = {name: _typed(name, value, kinds) for name, value in _read_file(config).items()}
    for name, text in environment.items():
        if name.startswith(PREFIX):
            own = name.removeprefix(PREFIX).lower()
            found[own] = _spelled(name, own, text, kinds)
    return found | {name: value for name, value in given.items() if value not in (None, (), [])}


def _read_file(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{config} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{config} is not TOML: {error}.") from error


def _typed(name: str, value: Any, kinds: Mapping[str, str]) -> Any:
    """A value of the file, of the setting's type."""
    if name not in kinds:
        raise UnknownNameError.among("setting", name, kinds)
    kind = kinds[name]
    if kind.startswith("tuple"):
        items = [value] if isinstance(value, str) else value
        if isinstance(items, list) and all(isinstance(one, str) for one in items):
            return tuple(items)
    elif kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif type(value).__name__ == kind.partition(" ")[0]:
        return value
    shown = "…" if name in SECRETS else value
    raise ArgumentTypeError.of(name, shown, f"is not of the type {kind}", "Leave it out for the default")


def _spelled(variable: str, name: str, text: str, kinds: Mapping[str, str]) -> Any:
    """The value of a variable, of the setting's type."""
    if name not in kinds:
        raise UnknownNameError.among("variable", variable, [f"{PREFIX}{one.upper()}" for one in kinds])
    kind = kinds[name].partition(" ")[0]
    try:
        if kind == "bool":
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        if kind.startswith("tuple"):
            return tuple(text.split(","))
        return {"int": int, "float": float, "str": str}[kind](text)
    except (KeyError, ValueError) as error:
        raise ArgumentError.of(variable, text, f"is not of the type {kind}", "Unset it for the default") from error
