"""Daily windows and their subjects over HTTP, on each back end."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

import pytest
from pydantic import AfterValidator

from oncue import daily
from oncue.model import Day as DayOf
from oncue.model import Decided, SubjectStep, Tally
from oncue.server.api import AccessMode
from oncue.verbs.schedules.declaring import Declaring
from tests.server.conftest import Api, MakeApi, a_token, bearer

WINDOWS = "/api/admin/windows"
SUBJECTS = f"{WINDOWS}/digest/subjects"


THREADS = set[int]()
"""Where topics were checked."""


def noted(topic: str) -> str:
    THREADS.add(threading.get_ident())
    return topic


Topic: TypeAlias = Annotated[str, AfterValidator(noted)]


def far_off(now: datetime) -> str:
    """A zone in which the last minute of the day is hours away."""
    return "UTC" if now.hour < 12 else "Etc/GMT+12"


async def declared(api: Api) -> Api:
    @api.app.task(schedule=daily(window="30m", retry="5m"))
    async def digest(user: str, day: date, language: str = "en") -> None: ...

    await Declaring(api.app.internals).synchronise()
    return api


@pytest.fixture
def api(api: Api, runner: Any) -> Api:
    found: Api = runner.run(declared(api))
    return found


@pytest.mark.contract("WIN-7")
async def test_a_subject_from_its_making_to_its_end(api: Api) -> None:
    (window,) = (await api.get(WINDOWS))["windows"]
    assert (window["name"], window["window_seconds"], window["retry_seconds"]) == ("digest", 1800.0, 300.0)
    assert await api.get(f"{WINDOWS}/digest") == window
    terms = {"at": "9:05", "tz": "Europe/Berlin", "weekdays": ["MON", "WED"], "days_off": ["2030-12-24"]}
    added = await api("PUT", f"{SUBJECTS}/ann", {**terms, "args": {"language": "de"}})
    assert added.status_code == 200, added.text
    ann = added.json()
    assert (ann["subject"], ann["at"], ann["weekdays"], ann["days_off"]) == ("ann", "09:05", "MON,WED", ["2030-12-24"])
    assert (ann["args"], ann["job_id"], ann["last_date"], ann["last_run_at"]) == ({"language": "de"}, None, None, None)
    assert await api.get(f"{SUBJECTS}/ann") == ann
    assert (await api.get(SUBJECTS))["subjects"] == [ann]
    changed = (await api("PATCH", f"{SUBJECTS}/ann", {"at": "10:00", "tz": None, "args": None})).json()
    assert (changed["at"], changed["tz"], changed["args"], changed["weekdays"]) == ("10:00", None, {}, "MON,WED")
    assert (await api("PATCH", f"{SUBJECTS}/ann", {"at": None})).json() == changed, "null is no time"
    assert (await api("PATCH", f"{SUBJECTS}/ann", {})).json() == changed
    replaced = (await api("PUT", f"{SUBJECTS}/ann", {"at": "10:00"})).json()
    assert (replaced["weekdays"], replaced["days_off"]) == ("MON,TUE,WED,THU,FRI,SAT,SUN", [])
    gone = await api("DELETE", f"{SUBJECTS}/ann")
    assert (gone.status_code, gone.json()) == (200, replaced)
    for method, path, body in (
        ("GET", "", None), ("PATCH", "", {"at": "10:00"}), ("PATCH", "", {}), ("DELETE", "", None),
        ("POST", "/run", None),
    ):  # fmt: skip
        assert (await api(method, f"{SUBJECTS}/ann{path}", body)).status_code == 404, (method, path)
    assert (await api.get(SUBJECTS))["subjects"] == []


async def test_what_there_is_not(api: Api) -> None:
    for method, path, body in (
        ("GET", "", None), ("GET", "/day", None), ("GET", "/subjects", None), ("GET", "/subjects/ann", None),
        ("GET", "/subjects/ann/ledger", None), ("PUT", "/subjects/ann", {"at": "09:00"}),
        ("PATCH", "/subjects/ann", {"at": "09:00"}), ("DELETE", "/subjects/ann", None),
        ("POST", "/subjects/ann/run", None), ("POST", "/subjects", {"subjects": [{"subject": "ann", "at": "09:00"}]}),
    ):  # fmt: skip
        reply = await api(method, f"{WINDOWS}/nothing{path}", body)
        assert (reply.status_code, "no window 'nothing'" in reply.json()["detail"]) == (404, True), (method, path)
    assert (await api("GET", f"{SUBJECTS}/a%09b")).status_code == 404
    assert (await api("PUT", f"{SUBJECTS}/a%09b", {"at": "09:00"})).status_code == 422
    assert (await api("POST", f"{SUBJECTS}/ann", {"at": "09:00"})).status_code == 405


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("at", {"at": "25:00"}), ("at", {"at": 9}), ("tz", {"tz": "Mars/Base"}), ("weekdays", {"weekdays": "MON-XYZ"}),
        ("weekdays", {"weekdays": ["MON"] * 8}), ("weekdays", {"weekdays": "MON," * 100_000 + "MON"}),
        ("days_off", {"days_off": ["soon"]}), ("args.language", {"args": {"language": 7}}),
        ("args.user", {"args": {"user": "bob"}}), ("args.other", {"args": {"other": 1}}), ("color", {"color": "red"}),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(api: Api, field: str, given: dict[str, Any]) -> None:
    reply = await api("PUT", f"{SUBJECTS}/ann", {"at": "09:00", **given})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), reply.text
    assert (await api.get(SUBJECTS))["subjects"] == []


@pytest.mark.parametrize(
    "name", ["a/b", "a/run", "a/ledger", "subjects/a", "a/subjects/b", "/a", "ü ?#%", "..x", "day"]
)
async def test_names_with_slashes_are_addressed(api: Api, name: str) -> None:
    place = f"{SUBJECTS}/{quote(name, safe='')}"
    assert (await api("PUT", place, {"at": "23:59", "tz": far_off(await api.app.now())})).json()["subject"] == name
    assert (await api.get(place))["subject"] == name
    assert (await api("PATCH", place, {"args": {"language": "de"}})).json()["args"] == {"language": "de"}
    opened = await api("POST", f"{place}/run")
    assert (opened.status_code, opened.json()["subject"]) == (201, name)
    assert opened.headers["Location"] == f"/api/admin/jobs/{opened.json()['job_id']}"
    (day,) = (await api.get(f"{place}/ledger"))["days"]
    assert (day["job_id"], day["outcome"], day["days"]) == (opened.json()["job_id"], "open", 1)
    assert [one.name for one in await api.app.windows.subjects("digest")] == [name]
    assert (await api("DELETE", place)).status_code == 200


async def test_a_window_with_a_slash_is_addressed(api: Api) -> None:
    @api.app.task(name="news/subjects/daily", schedule=daily())
    async def other(user: str) -> None: ...

    await Declaring(api.app.internals).synchronise()
    place = f"{WINDOWS}/news%2Fsubjects%2Fdaily"
    assert (await api.get(place))["name"] == "news/subjects/daily"
    assert (await api("PUT", f"{place}/subjects/a%2Fb", {"at": "09:00"})).status_code == 200
    assert [one["subject"] for one in (await api.get(f"{place}/subjects"))["subjects"]] == ["a/b"]
    assert (await api.get(f"{place}/day", params={"day": "2030-01-01"}))["buckets"] == []


@pytest.mark.contract("WIN-1")
async def test_a_day_runs_now_and_once(api: Api) -> None:
    await api("PUT", f"{SUBJECTS}/ann", {"at": "23:59", "tz": far_off(await api.app.now())})
    first = await api("POST", f"{SUBJECTS}/ann/run", headers={"Idempotency-Key": "k"})
    again = await api("POST", f"{SUBJECTS}/ann/run", headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.json(), again.headers["Idempotency-Replayed"]) == (201, first.json(), "true")
    second = await api("POST", f"{SUBJECTS}/ann/run")
    assert (second.status_code, second.json()["job_id"]) == (409, first.json()["job_id"])
    assert (await api("DELETE", f"{SUBJECTS}/ann")).status_code == 200
    assert (await api.get(f"/api/admin/jobs/{first.json()['job_id']}"))["status"] == "cancelled"


async def test_many_rows_and_what_came_of_each(api: Api) -> None:
    await api("PUT", f"{SUBJECTS}/old", {"at": "08:00"})
    await api("PUT", f"{SUBJECTS}/same", {"at": "09:00"})
    rows = [
        {"subject": "new", "at": "09:00", "tz": "Asia/Tokyo"}, {"subject": "old", "at": "09:00"},
        {"subject": "same", "at": "9:00"}, {"subject": "bad", "at": "9 o'clock"}, {"subject": "twice", "at": "08:00"},
        {"subject": "", "at": "09:00"}, {"subject": "twice", "at": "09:00"},
        {"subject": "worse", "at": "09:00", "args": {"language": 7}},
    ]  # fmt: skip
    reply = await api("POST", SUBJECTS, {"subjects": rows})
    assert reply.status_code == 200, reply.text
    told = reply.json()
    assert (told["written"], told["invalid"]) == (3, 3)
    assert [(row["subject"], row["outcome"], row["field"]) for row in told["subjects"]] == [
        ("new", "added", None), ("old", "changed", None), ("same", "unchanged", None), ("bad", "invalid", "at"),
        ("twice", "repeated", None), ("", "invalid", "subject"), ("twice", "added", None),
        ("worse", "invalid", "args.language"),
    ]  # fmt: skip
    assert "expected a time of day" in told["subjects"][3]["message"]
    assert (await api.get(f"{SUBJECTS}/twice"))["at"] == "09:00", "the last row counts"
    again = (await api("POST", SUBJECTS, {"subjects": rows})).json()
    assert (again["written"], again["invalid"]) == (0, 3), "it is simply sent again"


async def test_rows_are_bounded_and_typed(api: Api) -> None:
    many = [{"subject": f"user{number}", "at": "09:00"} for number in range(1001)]
    assert (await api("POST", SUBJECTS, {"subjects": many})).json()["errors"][0]["field"] == "subjects"
    assert (await api("POST", SUBJECTS, {"subjects": []})).status_code == 422
    reply = await api("POST", SUBJECTS, {"subjects": [{"subject": "a", "at": "09:00"}, {"subject": "b", "at": 9}]})
    assert reply.json()["errors"][0]["field"] == "subjects.1.at"
    wide = {f"field{number}": 1 for number in range(60)}
    assert (await api("POST", SUBJECTS, {"subjects": [wide]})).json()["errors"][0]["field"] == "subjects.0"
    assert (await api.get(SUBJECTS))["subjects"] == []
    assert (await api("POST", SUBJECTS, {"subjects": many[:1000]})).json()["written"] == 1000


async def test_many_rows_are_checked_outside_of_the_event_loop(api: Api) -> None:
    @api.app.task(schedule=daily())
    async def letter(user: str, topic: Topic = "all") -> None: ...

    await Declaring(api.app.internals).synchronise()
    THREADS.clear()
    rows = [{"subject": f"user{number}", "at": "09:00", "args": {"topic": "space"}} for number in range(100)]
    assert (await api("POST", f"{WINDOWS}/letter/subjects", {"subjects": rows})).json()["written"] == 100
    assert THREADS
    assert threading.get_ident() not in THREADS


async def test_pages_are_bounded_in_rows_and_bytes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.app.windows.add_many("digest", [{"subject": f"u{number:02}/ü", "at": "09:00"} for number in range(25)])
    found, page = list[str](), await api.get(SUBJECTS, params={"limit": 10})
    sizes = [len(page["subjects"])]
    while True:
        found += [one["subject"] for one in page["subjects"]]
        if page["next"] is None:
            break
        page = await api.get(page["next"])
        sizes.append(len(page["subjects"]))
    assert (found, sizes) == ([f"u{number:02}/ü" for number in range(25)], [10, 10, 5])
    monkeypatch.setattr("oncue.server.api.pages.LARGEST_PAGE", 1000)
    assert 1 <= len((await api.get(SUBJECTS))["subjects"]) < 10
    assert (await api("GET", SUBJECTS, params={"after": "x" * 201})).status_code == 422


async def test_a_day_and_the_ledger(api: Api) -> None:
    """Three days, one after the other: decided by hand, as the planner decides them."""
    await api("PUT", f"{SUBJECTS}/ann", {"at": "09:00"})
    connected, window = await api.app.internals.connected(), await api.app.windows.get("digest")
    for number, reason in enumerate(("cutoff_reached", "added_late", "cutoff_reached")):
        day = date(2030, 1, 1) + timedelta(days=number)
        ann = await api.app.windows.subject("digest", "ann")
        slot = Decided(datetime(day.year, day.month, day.day, tzinfo=UTC), "skipped", reason)
        step = SubjectStep(
            window.id, "ann", ann.version, DayOf(day, ann.opens_at, ann.cutoff_at), ann.next_at, None, day,
            "cutoff_reached", None, decided=(slot,), tallies=(Tally(day, 540, reason),),
        )  # fmt: skip
        assert await connected.store.windows.advance([step], connected.now()) == [True]
    shown = await api.get(f"{WINDOWS}/digest/day", params={"day": "2030-01-02"})
    assert (shown["window"], shown["day"]) == ("digest", "2030-01-02")
    assert shown["buckets"] == [
        {"cutoff": "09:00", "open": 0, "success": 0, "cutoff_reached": 0, "missed": 0, "added_late": 1}
    ]
    assert (await api.get(f"{WINDOWS}/digest/day"))["day"] == (await api.app.now()).date().isoformat()
    span = {"from": "2030-01-01", "to": "2030-01-09"}
    days = (await api.get(f"{SUBJECTS}/ann/ledger", params=span))["days"]
    assert [(row["day"], row["outcome"]) for row in days] == [
        ("2030-01-01", "cutoff_reached"), ("2030-01-02", "added_late"), ("2030-01-03", "cutoff_reached")
    ]  # fmt: skip
    first = await api.get(f"{SUBJECTS}/ann/ledger", params={**span, "limit": 2})
    assert [row["day"] for row in (await api.get(first["next"]))["days"]] == ["2030-01-03"]
    assert (await api.get(f"{SUBJECTS}/ann/ledger"))["days"] == []
    for path, params in (("ledger", {"from": "soon"}), ("ledger", {"to": "0001-01-01"})):
        refused = await api("GET", f"{SUBJECTS}/ann/{path}", params=params)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, next(iter(params)))


async def test_the_audit_log_tells_whose_token_it_was(make_api: MakeApi, database_url: str) -> None:
    api = await declared(make_api(database_url, AccessMode.TOKEN))
    headers = bearer(await a_token(api.app, "operate"))
    await api("PUT", f"{SUBJECTS}/ann", {"at": "09:00"}, headers=headers)
    await api("PATCH", f"{SUBJECTS}/ann", {"at": "10:00"}, headers=headers)
    await api("POST", SUBJECTS, {"subjects": [{"subject": "bob", "at": "09:00"}]}, headers=headers)
    await api("DELETE", f"{SUBJECTS}/ann", headers=headers)
    await api("PUT", f"{SUBJECTS}/cas", {"at": "23:59", "tz": far_off(await api.app.now())}, headers=headers)
    assert (await api("POST", f"{SUBJECTS}/cas/run", headers=headers)).status_code == 201
    entries = [entry for entry in await api.app.audit_log.list() if entry.action.startswith("subject.")]
    assert {entry.actor.partition("#")[0] for entry in entries} == {"token:operate"}
    assert [(entry.action, entry.subject) for entry in reversed(entries)] == [
        ("subject.add", "subject:digest/ann"), ("subject.change", "subject:digest/ann"),
        ("subject.add_many", "window:digest"), ("subject.remove", "subject:digest/ann"),
        ("subject.add", "subject:digest/cas"), ("subject.run", "subject:digest/cas"),
    ]  # fmt: skip
    reader = bearer(await a_token(api.app, "read", "enqueue"))
    assert (await api("GET", SUBJECTS, headers=reader)).status_code == 200
    assert (await api("PUT", f"{SUBJECTS}/ann", {"at": "09:00"}, headers=reader)).status_code == 403


async def test_a_process_without_the_code_bounds_arguments_all_the_same(make_api: MakeApi, database_url: str) -> None:
    await declared(make_api(database_url))
    other = make_api(database_url)
    large = {"at": "09:00", "args": {"text": "x" * 300_000}}
    reply = await other("PUT", f"{SUBJECTS}/ann", large)
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "args")
    assert (await other("PUT", f"{SUBJECTS}/ann", {"at": "09:00", "args": {"any": 1}})).json()["args"] == {"any": 1}


async def test_a_day_is_explained_and_the_days_are_audited(api: Api) -> None:
    now = await api.app.now()
    for name in ("ann", "anna", "bob"):
        await api.app.windows.add("digest", name, at="23:59", tz=far_off(now))
    explained = await api.get(f"{SUBJECTS}/ann/explain")
    told = await api.app.windows.explain("digest", "ann")
    assert (explained["subject"], explained["status"]) == (told.subject, told.status)
    assert [finding["code"] for finding in explained["findings"]] == told.codes
    later = await api.get(f"{SUBJECTS}/ann/explain", params={"day": "2040-01-31"})
    assert later["subject"] == "day 2040-01-31 of ann in window digest"
    for address in (f"{SUBJECTS}/none/explain", f"{WINDOWS}/none/audit", f"{SUBJECTS}/%00/explain"):
        assert (await api("GET", address)).status_code in (404, 422), address
    await put_back_days(api, "ann", "cutoff_reached", "cutoff_reached")
    span = {"from": "2030-01-01", "to": "2030-01-09"}
    audited = await api.get(f"{WINDOWS}/digest/audit", params=span)
    assert (audited["window"], audited["from"], audited["to"], audited["holds"]) == ("digest", *span.values(), True)
    assert (audited["subjects"], audited["counts"], audited["next"]) == (3, {"cutoff_reached": 2}, None)
    assert [(day["subject"], day["day"], day["fate"]) for day in audited["days"]] == [
        ("ann", "2030-01-01", "cutoff_reached"), ("ann", "2030-01-02", "cutoff_reached"),
    ]  # fmt: skip
    first = await api.get(f"{WINDOWS}/digest/audit", params={**span, "limit": 2})
    assert (first["subjects"], first["last"]) == (2, "anna")
    assert (await api.get(first["next"]))["subjects"] == 1
    assert (await api.get(f"{WINDOWS}/digest/audit", params={**span, "problems": "true"}))["days"] == []
    assert (await api.get(f"{WINDOWS}/digest/audit", params={**span, "subject": "ann"}))["subjects"] == 1
    for wrong in ({"from": "2030-01-09", "to": "2030-01-01"}, {"from": "2030-01-01", "to": "2030-03-01"},
                  {"from": "soon"}):  # fmt: skip
        assert (await api("GET", f"{WINDOWS}/digest/audit", params=wrong)).status_code == 422, wrong
    assert (await api("GET", f"{WINDOWS}/digest/audit", params={"subject": "none"})).status_code == 404


async def put_back_days(api: Api, name: str, *reasons: str) -> None:
    """What became of the first days of 2030."""
    connected, window = await api.app.internals.connected(), await api.app.windows.get("digest")
    one = await api.app.windows.subject("digest", name)
    days = [date(2030, 1, 1) + timedelta(days=number) for number in range(len(reasons))]
    slots = [
        Decided(datetime(day.year, day.month, day.day, tzinfo=UTC), "skipped", reason)
        for day, reason in zip(days, reasons, strict=True)
    ]
    step = SubjectStep(
        window.id, name, one.version, DayOf(one.day, one.opens_at, one.cutoff_at), one.next_at, None, one.last_date,
        one.status, None, decided=slots,
    )  # fmt: skip
    assert await connected.store.windows.advance([step], connected.now()) == [True]


async def test_subjects_are_searched_by_how_their_names_begin(api: Api) -> None:
    for name in ("ann", "anna", "annb", "ant", "Ann", "bob", "a"):
        await api.app.windows.add("digest", name, at="09:00")
    begun = await api.get(SUBJECTS, params={"prefix": "ann"})
    assert [one["subject"] for one in begun["subjects"]] == ["ann", "anna", "annb"]
    first = await api.get(SUBJECTS, params={"prefix": "ann", "limit": 2})
    assert [one["subject"] for one in first["subjects"]] == ["ann", "anna"]
    assert [one["subject"] for one in (await api.get(first["next"]))["subjects"]] == ["annb"]
    assert (await api.get(SUBJECTS, params={"prefix": "x"}))["subjects"] == []
    await api.app.windows.remove("digest", "ann")
    assert [one["subject"] for one in (await api.get(SUBJECTS, params={"prefix": "ann"}))["subjects"]] == [
        "anna", "annb",
    ]  # fmt: skip
    assert (await api.app.windows.subject("digest", "ann", removed=True)).removed_at is not None
