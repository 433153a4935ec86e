"""The models: the local one says the same every time, and an endpoint's failures are told apart by their class."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from news_agent import model
from news_agent.model import LocalModel, ModelError, Prompt, Said
from news_agent.settings import Settings

from tests.examples.news_agent.endpoint import BROKEN, Endpoint, Reply, text
from tests.ports import free_port

PROMPT = Prompt("digest", "ann", date(2026, 11, 18), ("space", "tea"), (Said("user", "hello"),))


async def asked(endpoint: Endpoint, **fields: Any) -> str:
    async with model.opened(Settings(model_url=endpoint.url, **fields)) as opened:
        return await opened.answer(PROMPT)


async def test_the_local_model_is_deterministic() -> None:
    async with model.opened(Settings()) as opened:
        assert isinstance(opened, LocalModel)
        first = await opened.answer(PROMPT)
        assert first == await opened.answer(PROMPT)
        assert "space: " in first
        assert "you have written 1 message." in first
        assert first != await opened.answer(PROMPT._replace(day=date(2026, 11, 19)))
        assert "new chat" in await opened.answer(PROMPT._replace(kind="reply"))
        longer = (Said("user", "one"), Said("agent", "yes"), Said("user", "two"))
        assert "2 messages" in await opened.answer(PROMPT._replace(kind="reply", context=longer))


async def test_an_endpoint_gets_what_is_known_and_its_text_is_taken(endpoint: Endpoint) -> None:
    endpoint.reply = lambda prompt: text("Extra! \0 Extra!")
    assert await asked(endpoint, model_token="s3cret") == "Extra!  Extra!"
    assert endpoint.asked == [
        {
            "kind": "digest", "user": "ann", "day": "2026-11-18", "topics": ["space", "tea"],
            "context": [{"role": "user", "text": "hello"}],
        }
    ]  # fmt: skip
    assert endpoint.headers[0]["authorization"] == "Bearer s3cret"


@pytest.mark.contract("WIN-15")
@pytest.mark.parametrize(
    ("reply", "error_class", "message"),
    [
        (BROKEN, "llm", "the model answered 500: 'out of memory'"),
        (Reply(429, b""), "llm", "the model answered 429"),
        (Reply(302, b""), "llm", "the model answered 302"),
        (Reply(200, b"<html>"), "parse", "the model's answer is not JSON: '<html>'"),
        (Reply(200, b'{"txt": "x"}'), "parse", 'has no "text"'),
        (Reply(200, b'{"text": " "}'), "parse", 'has no "text"'),
        (Reply(200, b"[" * 5000), "parse", "is not JSON"),
        (Reply(200, b"x" * (model.LARGEST_ANSWER + 1)), "parse", "longer than 262144 bytes"),
    ],
)
async def test_a_failure_has_its_class(endpoint: Endpoint, reply: Reply, error_class: str, message: str) -> None:
    endpoint.reply = lambda prompt: reply
    with pytest.raises(ModelError) as caught:
        await asked(endpoint)
    assert caught.value.error_class == error_class
    assert message in str(caught.value)


@pytest.mark.contract("WIN-15")
async def test_no_answer_is_the_requests_fault(endpoint: Endpoint) -> None:
    endpoint.gate.clear()
    with pytest.raises(ModelError, match="cannot be reached: no answer in time") as caught:
        await asked(endpoint, model_timeout_ms=50)
    assert caught.value.error_class == "req"
    async with model.opened(Settings(model_url=f"http://127.0.0.1:{free_port()}/")) as opened:
        with pytest.raises(ModelError, match="cannot be reached: ClientConnectorError") as caught:
            await opened.answer(PROMPT)
    assert caught.value.error_class == "req"
