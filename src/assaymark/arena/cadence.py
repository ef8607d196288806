"""The cadence at which two answers are shown, which hides the speed of a model and the size of its chunks.

At each tick both sides advance by the same number of characters. The first tick waits until both have some text in
reserve. If one side runs out of text before its answer is complete, both sides wait until both answers are complete, so
that stalls cannot be assigned to a model. If a model is slower than the cadence, a voter can measure when the later
answer was complete, but not whose it was.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cadence:
    """How fast both sides are shown. Units: seconds; characters."""

    tick_seconds: float = 0.1
    chunk: int = 12  # characters of each side at each tick
    reserve: int = 60  # characters that both sides have before the first tick
    start_seconds: float = 1.0  # before the first tick, so that the times of quick answers are equal

    @classmethod
    def of(cls, characters_per_second: float) -> "Cadence":
        """Return the cadence with so many characters per second, in ten ticks."""
        chunk = max(1, round(characters_per_second / 10))
        return cls(chunk / characters_per_second, chunk, 5 * chunk)


@dataclass(eq=False)
class Release:
    """Two answers that arrive, and how many characters of each are shown."""

    cadence: Cadence = field(default_factory=Cadence)
    position: int = 0  # characters shown of each side, as far as it has them
    has_failed: bool = False
    _texts: list[str] = field(default_factory=lambda: ["", ""])
    _ended: list[bool] = field(default_factory=lambda: [False, False])
    _waits: bool = False  # until both are complete

    def put(self, side: int, text: str) -> None:
        """Add text that a model wrote: side 0 is A, 1 is B."""
        self._texts[side] += text

    def end(self, side: int) -> None:
        """Mark an answer as complete."""
        self._ended[side] = True

    def tick(self) -> None:
        """Advance both sides by one chunk, or neither."""
        is_complete = all(self._ended)
        need = self.cadence.reserve if self.position == 0 else self.position + self.cadence.chunk
        has_enough = all(self._ended[side] or len(self._texts[side]) >= need for side in (0, 1))
        if is_complete or (has_enough and not self._waits):
            self.position += self.cadence.chunk
        elif self.position:
            self._waits = True

    def shown(self, since: int = 0) -> tuple[str, str]:
        """Return the text of both sides that is shown, from a position on."""
        return self._texts[0][since : self.position], self._texts[1][since : self.position]

    @property
    def answers(self) -> tuple[str, str]:
        """Both answers as far as they have arrived, without spaces around them."""
        return self._texts[0].strip(), self._texts[1].strip()

    @property
    def is_over(self) -> bool:
        """Whether both answers are shown completely, or one has failed."""
        longest = max(map(len, self._texts))
        return self.has_failed or (all(self._ended) and self.position >= longest)
