"""The model that writes digests and answers in chats: a local one that always says the same, or any HTTP endpoint.

An endpoint gets a POST with JSON, and answers with JSON:

    {"kind": "digest", "user": "ann", "day": "2026-11-18", "topics": ["space"], "context": [{"role", "text"}, …]}
    {"text": "…"}

What goes wrong is a ModelError. Its `error_class` says where: `req` the endpoint did not answer, `llm` it answered with
an error, `parse` its answer has no text, `unknown` all else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import aiohttp

from news_agent.settings import Settings

ErrorClass: TypeAlias = Literal["req", "llm", "parse", "unknown"]
Kind: TypeAlias = Literal["digest", "reply"]

LARGEST_ANSWER = 256 * 1024
LONGEST_TEXT = 20_000
SHOWN = 200


class Said(NamedTuple):
    """A message of a chat: `role` is user, agent or digest."""

    role: str
    text: str


class Prompt(NamedTuple):
    """What a model is asked for."""

    kind: Kind
    user: str
    day: date
    topics: tuple[str, ...]
    context: tuple[Said, ...]

    def document(self) -> dict[str, Any]:
        context = [said._asdict() for said in self.context]
        return {**self._asdict(), "day": self.day.isoformat(), "topics": list(self.topics), "context": context}


class ModelError(Exception):
    """The model gave no text."""

    def __init__(self, error_class: ErrorClass, message: str) -> None:
        super().__init__(message)
        self.error_class = error_class


class Model(Protocol):
    name: str

    async def answer(self, prompt: Prompt) -> str:
        """The text that is asked for. Raises ModelError."""


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Model]:
    """The model that the settings name, for as long as the block lasts."""
    if settings.model_url is None:
        yield LocalModel()
        return
    headers = {} if settings.model_token is None else {"Authorization": f"Bearer {settings.model_token}"}
    timeout = aiohttp.ClientTimeout(total=settings.model_timeout_ms / 1000)
    # No limit of its own: MAX_CONCURRENCY bounds the digests, and a request for a chat does not wait for them.
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, connector=connector) as session:
        yield HttpModel(session, settings.model_url)


# --- the local one --------------------------------------------------------------------------------------------------

SUBJECTS = ("A small town", "The harbour office", "A team of students", "The night train", "An old observatory",
            "The city council", "A bakery", "The weather service")  # fmt: skip
EVENTS = ("opens its doors again", "reports a record", "changes its plans", "finds what was lost for years",
          "asks for volunteers", "celebrates its hundredth year", "publishes its figures", "wins a prize")  # fmt: skip


class LocalModel:
    """Invents the news. The same user, day and topics give the same digest, on every machine."""

    name = "local"

    async def answer(self, prompt: Prompt) -> str:
        return _digest(prompt) if prompt.kind == "digest" else _reply(prompt)


def _digest(prompt: Prompt) -> str:
    lines = [f"{topic}: {_headline(prompt.day, topic)}." for topic in prompt.topics]
    said = sum(one.role == "user" for one in prompt.context)
    closing = f"\n\nSince our chat began you have written {said} {_plural(said, 'message')}." if said else ""
    return f"Good day, {prompt.user}. Your news of {prompt.day:%d %B %Y}:\n\n" + "\n".join(lines) + closing


def _headline(day: date, topic: str) -> str:
    dice = hashlib.sha256(f"{day}/{topic}".encode()).digest()
    return f"{SUBJECTS[dice[0] % len(SUBJECTS)]} {EVENTS[dice[1] % len(EVENTS)]}"


def _reply(prompt: Prompt) -> str:
    asked = [one.text for one in prompt.context if one.role == "user"]
    if len(asked) <= 1:
        return "Hello. This is a new chat: I remember nothing from before."
    return f"I remember {len(asked)} messages of this chat. The first was: {asked[0][:SHOWN]}"


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"


# --- an endpoint ----------------------------------------------------------------------------------------------------


class HttpModel:
    """Asks an endpoint, once for each answer: the window's retry delay says when to ask again."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.name = url.partition("?")[0]
        self._session = session
        self._url = url

    async def answer(self, prompt: Prompt) -> str:
        try:
            status, body = await self._asked(prompt)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = "no answer in time" if isinstance(error, asyncio.TimeoutError) else f"{type(error).__name__}: {error}"
            raise ModelError("req", f"the model cannot be reached: {why}") from error
        if status != 200:
            raise ModelError("llm", f"the model answered {status}: {_shown(body)}")
        return _text(body)

    async def _asked(self, prompt: Prompt) -> tuple[int, bytes]:
        async with self._session.post(self._url, json=prompt.document(), allow_redirects=False) as reply:
            body = b""
            async for part in reply.content.iter_any():
                body += part
                if len(body) > LARGEST_ANSWER:
                    raise ModelError("parse", f"the model's answer is longer than {LARGEST_ANSWER} bytes")
            return reply.status, body


def _text(body: bytes) -> str:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ModelError("parse", f"the model's answer is not JSON: {_shown(body)}") from None
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise ModelError("parse", f'the model\'s answer has no "text": {_shown(body)}')
    # PostgreSQL keeps no NUL, and no database keeps half of a surrogate pair.
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:LONGEST_TEXT]


def _shown(body: bytes) -> str:
    return repr(body[:SHOWN].decode("utf-8", "replace"))
