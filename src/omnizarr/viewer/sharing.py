"""Share memory for answers, and the right to decode, among clients."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.types import Scope


def client_of(scope: Scope) -> str:
    """Return the address of the client of a request."""
    return str((scope.get("client") or ("", 0))[0])


def _busy() -> HTTPException:
    return HTTPException(503, "the server is busy; try again", {"retry-after": "1"})


class Portion:
    """A part of what clients share, until it is closed or the block ends."""

    def __init__(self, owner: FairShare, client: str, amount: int) -> None:
        self._owner, self._client, self._amount = owner, client, amount

    def keep(self, amount: int) -> None:
        """Give back all but this amount."""
        if amount < self._amount:
            self._owner.give_back(self._client, self._amount - amount)
            self._amount = amount

    def close(self) -> None:
        """Give back everything."""
        self.keep(0)

    def __enter__(self) -> Portion:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FairShare:
    """A limited amount for all clients, each of which waits in its own line.

    The client that has least of it now comes first, and those with the same take turns: a small
    request does not wait for all requests of others. One client has at most a share of it, unless
    it has nothing yet. A client that waits too long is told to try again.
    """

    def __init__(self, most: Callable[[], int], share: float, seconds: float) -> None:
        self.most, self._share, self._seconds = most, share, seconds
        self.used: Counter[str] = Counter()  # by client
        # Those who wait, by client; who has had a turn goes to the end.
        self._lines: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    def check(self) -> None:
        """Raise if nothing is left."""
        if self.used.total() >= self.most():
            raise _busy()

    async def take(self, client: str, amount: int) -> Portion:
        """Return a portion as soon as it is there and it is this client's turn."""
        portion = None if client in self._lines else self.try_take(client, amount)
        if portion is None:
            await self._wait(client, amount)
        return portion or Portion(self, client, amount)

    def try_take(self, client: str, amount: int = 1) -> Portion | None:
        """Return a portion, or None if it is not there now."""
        if not self._fits(client, amount):
            return None
        self.used[client] += amount
        return Portion(self, client, amount)

    def give_back(self, client: str, amount: int) -> None:
        """Take back what a client had."""
        self.used[client] -= amount
        if not self.used[client]:
            del self.used[client]
        self._serve()

    def _fits(self, client: str, amount: int) -> bool:
        own, most = self.used.get(client, 0), self.most()
        fits = self.used.total() + amount <= most
        return fits and (not own or own + amount <= most * self._share)

    async def _wait(self, client: str, amount: int) -> None:
        future = asyncio.get_running_loop().create_future()
        self._lines.setdefault(client, deque()).append((amount, future))
        try:
            async with asyncio.timeout(self._seconds):
                await future
        except BaseException as e:
            if future.done() and not future.cancelled():  # it came at the same time
                self.give_back(client, amount)
            else:
                future.cancel()
                self._serve()
            if isinstance(e, TimeoutError):
                raise _busy() from None
            raise

    def _serve(self) -> None:
        """Let those begin who are first in a line and for whom there is enough."""
        for client in sorted(self._lines, key=lambda client: self.used.get(client, 0)):
            line = self._lines[client]
            while line and (line[0][1].done() or self._fits(client, line[0][0])):
                amount, future = line.popleft()
                if not future.done():  # else it was cancelled
                    self.used[client] += amount
                    future.set_result(None)
                    self._lines[client] = self._lines.pop(client)
            if not line:
                del self._lines[client]


class AnswerMemory(FairShare):
    """The bytes for making answers, and for those that clients have not taken yet."""

    async def take(self, client: str, amount: int) -> Portion:
        """Return a portion; raise if there never is so much."""
        if amount > self.most():
            raise HTTPException(
                413,
                f"the answer needs {amount} bytes of memory, more than the {self.most()} that the"
                " server has for answers; start it with more: --memory, or ServerLimits(memory=…)",
            )
        return await super().take(client, amount)
