"""What a simulated job does, attempt by attempt. It travels in the job's own arguments, so a row tells its story."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from random import Random
from typing import Any, Literal, TypeAlias

from oncue.model import Cancelled, Claim, Failed, Outcome, Skipped, Snoozed, Succeeded

_TERMS = frozenset({"details", "before", "led", "follows", "follows_late", "follows_key"})

Deed: TypeAlias = Literal["ok", "fail", "give_up", "retry", "snooze", "skip", "cancel", "hang", "crash"]
DEEDS: tuple[Deed, ...] = ("ok", "fail", "give_up", "retry", "snooze", "skip", "cancel", "hang", "crash")


@dataclass(frozen=True, slots=True)
class Act:
    """One attempt: what it does after how many seconds. A stubborn one cannot be stopped, as a thread.

    One that hangs and is stubborn is not even cut off at its time-out: its node is stuck, and leaves it to others.

    Its success may count only until so many seconds after the job was made (`before`), whatever it comes to only while
    its node leads (`led`, if it leads when the attempt begins). It may tell details, and be followed by so many jobs
    (`follows`), or by as many others if it comes too late (`follows_late`), which may share a key.
    """

    do: Deed = "ok"
    seconds: float = 0.1
    after: float = 1.0
    stubborn: bool = False
    at_least: bool = False
    details: bool = False
    before: float | None = None
    led: bool = False
    follows: int = 0
    follows_late: int = 0
    follows_key: str | None = None

    @property
    def is_stuck(self) -> bool:
        return self.do == "hang" and self.stubborn

    def outcome(self) -> Outcome:
        return _OUTCOMES[self.do](self)


_OUTCOMES: dict[Deed, Callable[[Act], Outcome]] = {
    "ok": lambda act: Succeeded(),
    "fail": lambda act: Failed("it failed, as the script says"),
    "give_up": lambda act: Failed("it failed for good, as the script says", final=True),
    "retry": lambda act: Failed("it asked for a retry", act.after, at_least=act.at_least),
    "snooze": lambda act: Snoozed(act.after),
    "skip": lambda act: Skipped("nothing to do"),
    "cancel": lambda act: Cancelled("it gave up"),
}

Script: TypeAlias = Callable[[Claim], Act]


def written(acts: Sequence[Act]) -> str:
    """Acts as a job's arguments. The last one is repeated for further attempts."""
    return json.dumps({"acts": [described(act) for act in acts]})


def described(act: Act) -> dict[str, Any]:
    """An act as JSON, without what few of them have."""
    told = asdict(act)
    return {name: value for name, value in told.items() if name not in _RARE or value != _RARE[name]}


_RARE = {field.name: field.default for field in fields(Act) if field.name in _TERMS}


def from_arguments(claim: Claim) -> Act:
    acts = json.loads(claim.args).get("acts") or [{}]
    return Act(**acts[min(claim.attempt, len(acts) - 1)])


def random_acts(dice: Random, *, deadly: bool = True) -> list[Act]:
    """Mostly short and good; the last act always ends, so that every job ends. One in fifty kills its process."""
    if dice.random() < 0.02 and deadly:
        return [_random_act(dice, ("crash",))]
    deeds = DEEDS if deadly else tuple(deed for deed in DEEDS if deed != "crash")
    acts = [_random_act(dice, deeds) for _ in range(dice.choice((0, 0, 0, 1, 1, 2, 3)))]
    return [*acts, _random_act(dice, ("ok", "ok", "ok", "ok", "give_up", "skip", "cancel"))]


def random_terms(dice: Random) -> list[Act]:
    """Acts whose ends depend on more than their claims, and that say more."""
    key = dice.choice((None, None, f"follow {dice.randrange(2)}"))
    terms: dict[str, Any] = {
        "details": dice.random() < 0.7,
        "before": dice.choice((None, round(dice.uniform(0.5, 6.0), 6))),
        "led": dice.random() < 0.5,
        "follows": dice.choice((0, 1, 2)),
        "follows_late": dice.choice((0, 1)),
        "follows_key": key,
    }
    deeds: tuple[Deed, ...] = ("ok", "ok", "ok", "fail", "retry", "snooze", "skip", "hang")
    acts = [_random_act(dice, deeds), _random_act(dice, ("ok",))]
    return [replace(act, seconds=round(dice.choice((0.1, 1.0, 3.0)) * dice.random(), 6), **terms) for act in acts]


def _random_act(dice: Random, deeds: Sequence[Deed]) -> Act:
    seconds = dice.choice((0.0, 0.01, 0.3, 1.0, 4.0)) * dice.uniform(0.5, 1.5)
    return Act(dice.choice(deeds), round(seconds, 6), round(dice.uniform(0.0, 3.0), 6), dice.random() < 0.2)
