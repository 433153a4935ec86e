"""The invented communities: who links to whom, and how each page behaves. The same seed gives the same site.

Few communities are linked to by very many and most by few, as in the world: whoever is linked to already is more likely
to be linked to again. Every community can be reached from the first one. Those whose links a crawler never gets to see
(they are gone, closed, too large, …) are leaves, so that nothing hides behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Literal, TypeAlias, get_args

Behaviour: TypeAlias = Literal[
    "fine",
    "slow",
    "broken",  # its HTML is; its links can be read
    "busy",  # 503 at first, and says when to come back
    "shaky",  # 500 at first, and says nothing
    "shy",  # 429 at first, and says when to come back
    "moved",  # a redirect to another community
    "gone",  # 404 or 410
    "dead",  # 500 for ever
    "huge",
    "private",  # robots.txt says: not for you
]
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)

ANYWHERE: dict[Behaviour, float] = {"slow": 0.02, "broken": 0.02, "busy": 0.01, "shaky": 0.005, "shy": 0.002}
LEAVES: dict[Behaviour, float] = {"moved": 0.01, "gone": 0.02, "dead": 0.003, "huge": 0.003, "private": 0.02}
"""How large a part of all communities behaves like that."""

FIRST = "harbour"
PRIVATE = "private-"
FEWEST_LINKS, MOST_LINKS = 1, 6

_BEGINNINGS = (
    "al", "bar", "cor", "dun", "el", "fen", "gar", "hol", "is", "jun", "kel", "lor", "mar", "nor", "ost", "pel",
    "quin", "ros", "sol", "tam", "ul", "vor", "wes", "yar", "zel",
)  # fmt: skip
_MIDDLES = (
    "a", "e", "i", "o", "u", "an", "en", "in", "on", "un", "ar", "er", "ir", "or", "ur",
)  # fmt: skip
_ENDS = (
    "berg", "by", "dale", "den", "ford", "gate", "ham", "holm", "ley", "mere", "mont", "mouth", "ness", "port",
    "shire", "stead", "ton", "vale", "wick", "wold",
)  # fmt: skip
_SUBJECTS = (
    "lighthouses", "night trains", "sourdough", "old maps", "beekeeping", "tide tables", "radio plays", "moss",
    "clock towers", "ferries", "bridges", "wild garlic", "kites", "canals", "puppetry", "slow cycling",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Community:
    name: str
    title: str
    description: str
    subscribers: int
    links: tuple[str, ...]
    behaviour: Behaviour


def communities(size: int, seed: int = 1) -> dict[str, Community]:
    """So many communities by their names, the first one first."""
    dice = Random(seed)
    links = _links(size, dice)
    behaviours = _behaviours(links, dice)
    names = _names(behaviours, dice)
    popularity = [0] * size
    for targets in links:
        for target in targets:
            popularity[target] += 1
    return {
        name: _community(name, [names[target] for target in links[number]], popularity[number], behaviour, dice)
        for number, (name, behaviour) in enumerate(zip(names, behaviours, strict=True))
    }


def _links(size: int, dice: Random) -> list[list[int]]:
    """For each community the numbers of those that it links to.

    Each newcomer is linked to by one that is there already, and links to some of them; both are drawn from an urn in
    which everybody has a ball for each link, to or from it.
    """
    links: list[list[int]] = [[] for _ in range(size)]
    urn = [0]
    for newcomer in range(1, size):
        parent = dice.choice(urn)
        targets = {dice.choice(urn) for _ in range(dice.randint(FEWEST_LINKS, MOST_LINKS))}
        links[parent].append(newcomer)
        links[newcomer].extend(sorted(targets))
        urn += [parent, newcomer, *sorted(targets)]
    return links


def _behaviours(links: list[list[int]], dice: Random) -> list[Behaviour]:
    """Draw who misbehaves. The first one never does: everything begins there."""
    size = len(links)
    behaviours: list[Behaviour] = ["fine"] * size
    leaves = [number for number in range(1, size) if all(target < number for target in links[number])]
    everyone = list(range(1, size))
    for shares, among in ((LEAVES, leaves), (ANYWHERE, everyone)):
        free = [number for number in among if behaviours[number] == "fine"]
        dice.shuffle(free)
        for behaviour, share in shares.items():
            for _ in range(max(round(share * size), 1)):
                if free:
                    behaviours[free.pop()] = behaviour
    return behaviours


def _names(behaviours: list[Behaviour], dice: Random) -> list[str]:
    names = {FIRST: None}
    for behaviour in behaviours[1:]:
        prefix = PRIVATE if behaviour == "private" else ""
        word = dice.choice(_BEGINNINGS) + dice.choice(_MIDDLES) + dice.choice(_ENDS)
        for number in count(1):
            name = f"{prefix}{word}{number if number > 1 else ''}"
            if name not in names:
                names[name] = None
                break
    return list(names)


def _community(name: str, links: list[str], popularity: int, behaviour: Behaviour, dice: Random) -> Community:
    subject = dice.choice(_SUBJECTS)
    shown = name.removeprefix(PRIVATE).capitalize()
    return Community(
        name=name,
        title=f"{shown}: {subject}",
        description=f"For all who care about {subject}, in {shown} & elsewhere. Invented.",
        subscribers=10 + popularity * dice.randint(40, 60),
        links=tuple(links),
        behaviour=behaviour,
    )
