"""Voters of the arena over HTTP, as a browser without JavaScript or a program would be."""

import re
from collections.abc import Callable
from typing import Any, Self

import httpx

__all__ = ["ApiVoter", "cast_votes"]

Choose = Callable[[dict[str, Any]], str]


class ApiVoter:
    """One visitor with his cookie and form token."""

    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=url, timeout=30)
        self.token = ""

    def __enter__(self) -> Self:
        """Load the page that gives cookie and token."""
        result = re.search(r'name="token" value="(\w+)"', self.client.get("/arena").text)
        assert result is not None
        self.token = result[1]
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.client.close()

    def post(self, path: str, **fields: Any) -> httpx.Response:
        """Send JSON with the token."""
        return self.client.post(path, json=fields, headers={"x-form-token": self.token})

    def begin(self) -> dict[str, Any]:
        """Return a battle."""
        answer = self.post("/arena/battles")
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def vote(self, battle: str, choice: str, key: str | None = None) -> httpx.Response:
        """Vote on a battle."""
        return self.post(f"/arena/battle/{battle}/vote", choice=choice, key=key or battle)


def cast_votes(url: str, n: int, choose: Choose, *, per_voter: int = 20) -> dict[str, str]:
    """Cast n votes of several voters, and return battle -> choice of those that the server acknowledged."""
    cast: dict[str, str] = {}
    while len(cast) < n:
        with ApiVoter(url) as voter:
            for _ in range(min(per_voter, n - len(cast))):
                battle = voter.begin()
                choice = choose(battle)
                answer = voter.vote(battle["battle"], choice)
                assert answer.status_code == 200, answer.text
                cast[battle["battle"]] = choice
    return cast
