"""The verbs on nodes."""

from __future__ import annotations

from oncue.model import Node
from oncue.verbs.base import NounVerbs


class Nodes(NounVerbs):
    async def list(self) -> list[Node]:
        """Every node that is alive, or was lately."""
        return await (await self._connected()).store.nodes.alive()
