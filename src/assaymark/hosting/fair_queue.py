"""A bounded queue that serves its users in turn, so that one user's many requests do not delay another's first."""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
U = TypeVar("U", bound=Hashable)


class QueueFull(Exception):
    """The queue has as many entries as it may have."""


class FairQueue(Generic[U, T]):
    """Entries of several users; each user's in order, the users in turn. Not thread-safe: its owner locks."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._users: OrderedDict[U, deque[T]] = OrderedDict()  # the next user to be served first
        self._user_of: dict[T, U] = {}

    def __len__(self) -> int:
        return len(self._user_of)

    def __contains__(self, entry: object) -> bool:
        return entry in self._user_of

    def users(self) -> Iterable[U]:
        """Return the users that have entries, the next one to be served first."""
        return self._users.keys()

    def put(self, user: U, entry: T, *, n_kept: int = 0) -> None:
        """Add an entry behind the user's others. `n_kept`: places to leave for others. Raises: QueueFull."""
        if len(self) + n_kept >= self.most:
            raise QueueFull
        self._users.setdefault(user, deque()).append(entry)
        self._user_of[entry] = user

    def put_back(self, user: U, entry: T) -> None:
        """Add an entry that was served in part before the user's others; the user is served after all others."""
        self._users.setdefault(user, deque()).appendleft(entry)
        self._user_of[entry] = user

    def pop(self, may_go: Callable[[T], bool]) -> T | None:
        """Remove and return the first entry, in turn, for which `may_go` holds; None if there is none.

        Only each user's first entry is considered: a user's entries keep their order.
        """
        for user, entries in self._users.items():
            if may_go(entries[0]):
                entry = entries.popleft()
                del self._user_of[entry]
                self._users.move_to_end(user)
                if not entries:
                    del self._users[user]
                return entry
        return None

    def remove(self, entry: T) -> bool:
        """Remove an entry; return whether it was here."""
        user = self._user_of.pop(entry, None)
        if user is None:
            return False
        entries = self._users[user]
        entries.remove(entry)
        if not entries:
            del self._users[user]
        return True

    def clear(self) -> list[T]:
        """Remove and return all entries."""
        entries = list(self._user_of)
        self._users.clear()
        self._user_of.clear()
        return entries

    def position(self, entry: T) -> int | None:
        """Return how many entries are served before this one, plus one; None if it is not here."""
        user = self._user_of.get(entry)
        if user is None:
            return None
        index = self._users[user].index(entry)
        order = list(self._users)
        before = index
        for place, other in enumerate(order):
            if other != user:  # each turn serves one entry of every user; those ahead in turn serve one more
                before += min(len(self._users[other]), index + (place < order.index(user)))
        return before + 1
