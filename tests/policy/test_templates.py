"""Bodies of deliveries, and the templates that they are made of."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue import OncueError
from oncue.errors import InvalidWebhook
from oncue.policy.templates import (
    LARGEST_BODY,
    LARGEST_TEMPLATE,
    MOST_PLACEHOLDERS,
    DeliveryFacts,
    check_template,
    rendered,
)

JSON, TEXT, FORM, XML = "application/json", "text/plain", "application/x-www-form-urlencoded", "application/xml"
SLOT = datetime(2030, 1, 1, 12, tzinfo=UTC)
MADE = datetime(2030, 1, 1, 12, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=2)))
SCHEDULED = DeliveryFacts("7", "orders", SLOT, MADE)

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


def facts(payload: Any = None, **changed: Any) -> DeliveryFacts:
    return SCHEDULED._replace(payload=payload, **changed)


def body(template: str | None, content_type: str = JSON, told: DeliveryFacts = SCHEDULED, method: str = "POST") -> str:
    if template is not None:
        check_template(template, content_type)
    found = rendered(method, content_type, template, told)
    assert found is not None
    return found.decode()


@pytest.mark.parametrize(
    ("placeholder", "text", "value"),
    [
        ("id", "7", "7"),
        ("webhook", "orders", "orders"),
        ("scheduled_for", "2030-01-01T12:00:00Z", "2030-01-01T12:00:00Z"),
        ("created_at", "2030-01-01T10:00:00.250000Z", "2030-01-01T10:00:00.250000Z"),
        ("payload", '{"a":{"b":"x"},"n":1.5,"t":true,"é":null}', {"a": {"b": "x"}, "n": 1.5, "t": True, "é": None}),
        ("payload.a", '{"b":"x"}', {"b": "x"}),
        ("payload.a.b", "x", "x"),
        ("payload.n", "1.5", 1.5),
        ("payload.t", "true", True),
        ("payload.missing", "", None),
        ("payload.a.b.c", "", None),
    ],
)
def test_every_placeholder_as_text_and_as_json(placeholder: str, text: str, value: Any) -> None:
    told = facts({"a": {"b": "x"}, "n": 1.5, "t": True, "é": None})
    written = f"{{{{{placeholder}}}}}"
    assert body(f"<{written}>", TEXT, told) == f"<{text}>"
    document = body(f'{{"in": "<{written}>", "as": {written} , "spaced": {{{{  {placeholder} }}}}}}', JSON, told)
    assert json.loads(document) == {"in": f"<{text}>", "as": value, "spaced": value}


def test_what_a_delivery_by_hand_has_not() -> None:
    told = facts(webhook=None, scheduled_for=None)
    assert body('[{{webhook}}, {{scheduled_for}}, {{payload}}, "{{webhook}}"]', JSON, told) == '[null, null, null, ""]'


@given(values, texts, texts)
def test_no_value_breaks_out_of_a_json_body(payload: Any, field: str, name: str) -> None:
    told = facts({"x": field, "all": payload}, webhook=name, id=field)
    template = (
        r'{"a":"<{{payload.x}}\">","b":{{payload.all}},"{{webhook}} \\":["{{payload.all}}",{{payload.x}}],"c":{{id}}}'
    )
    expected_text = payload if isinstance(payload, str) else "" if payload is None else None
    found = json.loads(body(template, JSON, told))
    assert found["a"] == f'<{field}">'
    assert found["b"] == payload
    as_text, as_value = found[f"{name} \\"]
    assert as_text == expected_text or json.loads(as_text) == payload
    assert as_value == found["c"] == field
    assert len(found) == 4


@given(texts, texts)
def test_no_value_breaks_out_of_a_form(first: str, second: str) -> None:
    document = body("a=-{{payload.x}}&b=-{{payload.y}}", FORM, facts({"x": first, "y": second}))
    assert parse_qs(document, strict_parsing=True) == {"a": [f"-{first}"], "b": [f"-{second}"]}


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF)))
def test_no_value_breaks_out_of_xml(value: str) -> None:
    document = body('<a b="{{payload}}"><c>{{payload}}</c></a>', "application/soap+xml; charset=utf-8", facts(value))
    tree = ElementTree.fromstring(document)
    assert tree.attrib == {"b": value}
    assert [(child.tag, child.text or "") for child in tree] == [("c", value)]


def test_nothing_is_evaluated() -> None:
    told = facts({"x": "{{id}} {{payload.__class__}} ${id} {id}"})
    assert body("{{payload.x}}", TEXT, told) == "{{id}} {{payload.__class__}} ${id} {id}"
    assert body("{{payload.__class__}}|{{payload.x.upper}}|{id} ${id} %(id)s", TEXT, told) == "||{id} ${id} %(id)s"


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{user}}", r"unknown placeholder \{\{user\}\} at position 1, expected one of \{\{id\}\}, \{\{webhook\}\}"),
        ("a {{id}} {{ID}}", r"unknown placeholder \{\{ID\}\} at position 10"),
        ("{{id.x}}", r"unknown placeholder \{\{id.x\}\}"),
        ("{{payload.}}", r"unknown placeholder \{\{payload.\}\}"),
        ("{{payload..a}}", r"unknown placeholder"),
        ("{{payload.a.}}", r"unknown placeholder"),
        ("{{payloads.a}}", r"unknown placeholder"),
        ("{{.payload}}", r"unknown placeholder"),
        ("{{}}", "expected a placeholder at position 1"),
        ("x{{", "expected a placeholder at position 2"),
        ("{{id", "expected a placeholder at position 1"),
        ("{{i d}}", "expected a placeholder at position 1"),
        ("{{id}", "expected a placeholder at position 1"),
        ("{{1 + 1}}", "expected a placeholder at position 1"),
        ("{{payload|safe}}", "expected a placeholder at position 1"),
        ("{{{id}}}", "expected a placeholder at position 1"),
        ("{{" + "a" * 300 + "}}", "expected a placeholder at position 1"),
    ],
)
def test_an_unknown_placeholder_is_refused_when_it_is_saved(template: str, complaint: str) -> None:
    for content_type in (TEXT, JSON):
        with pytest.raises(InvalidWebhook, match=f"^body: {complaint}") as refused:
            check_template(template, content_type)
        assert refused.value.field == "body"
        assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "template",
    [
        "", "{{id}} {{id}}", "hello", '{"a": {{id}}', '{"a": "{{id}}}', '{"a": "{{id}}{{id}}', '{"a": "\\{{id}}"}',
        '{"a": "\\u00{{id}}"}', '{"a": "\\u00{{payload.x}}41"}', "[1{{payload}}]", "{{{payload}}: 1}", "[NaN, {{id}}]",
        "{ {{payload}} : 1}", "{ {{webhook}} : 1}", '\\"{{id}}\\"', "[" * 60_000, '"a\n{{id}}"', '{"a": \'{{id}}\'}',
    ],
)  # fmt: skip
def test_a_json_template_must_be_json_whatever_is_filled_in(template: str) -> None:
    with pytest.raises(InvalidWebhook, match=r"^body: expected "):
        check_template(template, "application/problem+json; charset=utf-8")


def test_the_id_may_be_a_name_of_a_json_object() -> None:
    """It is always a text; no other placeholder always is."""
    assert body("{ {{id}} : 1}") == '{ "7" : 1}'


def test_a_template_is_bounded() -> None:
    check_template("é" * (LARGEST_TEMPLATE // 2), TEXT)
    with pytest.raises(InvalidWebhook, match=r"^body: expected at most 65,536 bytes$"):
        check_template("é" * (LARGEST_TEMPLATE // 2) + "x", TEXT)
    check_template("{{id}}" * MOST_PLACEHOLDERS, TEXT)
    with pytest.raises(InvalidWebhook, match=r"^body: expected at most 100 placeholders, not 101$"):
        check_template("{{id}}" * (MOST_PLACEHOLDERS + 1), TEXT)


def test_a_filled_body_is_bounded() -> None:
    told = facts("x" * (LARGEST_BODY // 50))
    assert len(body("{{payload}}" * 50, TEXT, told)) <= LARGEST_BODY
    with pytest.raises(InvalidWebhook, match=r"^body: expected at most 4,194,304 characters once it is filled in$"):
        body("{{payload}}" * 51, TEXT, told)


def test_without_a_template_the_payload_is_the_body() -> None:
    assert body(None, JSON, facts({"a": ["é", None]})) == '{"a":["é",null]}'
    assert body(None, JSON, facts("a text")) == '"a text"'
    assert body(None, "application/vnd.x+json", facts("a text")) == '"a text"'
    assert body(None, TEXT, facts("a text")) == "a text"
    assert body(None, FORM, facts("a=1&b=2")) == "a=1&b=2"
    assert body(None, TEXT, facts([1])) == "[1]"


@pytest.mark.parametrize("payload", [False, 0, "", [], {}])
def test_an_empty_payload_is_one(payload: Any) -> None:
    assert json.loads(body(None, JSON, facts(payload))) == payload


@pytest.mark.contract("HOOK-19")
def test_without_a_payload_the_body_tells_which_delivery_it_is() -> None:
    assert body(None) == '{"id":"7","webhook":"orders","scheduled_for":"2030-01-01T12:00:00Z"}'
    assert body(None, TEXT, facts(webhook=None, scheduled_for=None)) == '{"id":"7","webhook":null,"scheduled_for":null}'


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_a_method_without_a_body_has_one_only_by_a_template(method: str) -> None:
    assert rendered(method, JSON, None, facts({"a": 1})) is None
    assert rendered(method, JSON, "{{payload}}", facts({"a": 1})) == b'{"a":1}'
    assert rendered(method, TEXT, "", SCHEDULED) == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_the_others_always_have_one(method: str) -> None:
    assert rendered(method, JSON, None, facts({"a": 1})) == b'{"a":1}'


def test_half_a_surrogate_pair_stops_no_delivery() -> None:
    told = facts("a\ud800b")
    assert [body(None, TEXT, told), body("{{payload}}", JSON, told), body("{{payload}}", FORM, told)] == [
        "a?b", '"a?b"', "a%3Fb",
    ]  # fmt: skip


def test_a_stored_template_of_another_version_fails_in_words() -> None:
    with pytest.raises(OncueError, match=r"^body: unknown placeholder"):
        rendered("POST", JSON, "{{later}}", SCHEDULED)
