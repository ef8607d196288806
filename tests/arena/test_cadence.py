"""Release of two answers: equal chunks at each tick, whatever the speed and the pieces of either model."""

from hypothesis import given
from hypothesis import strategies as st

from assaymark.arena.cadence import Cadence, Release

TEXTS = st.text(max_size=200)
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=20)


def cut(text: str, sizes: list[int]) -> list[str]:
    """Return a text in pieces of these sizes, over and over."""
    result, start, index = [], 0, 0
    while start < len(text):
        result.append(text[start : start + sizes[index % len(sizes)]])
        start += sizes[index % len(sizes)]
        index += 1
    return result


def released(pieces: tuple[list[str], list[str]], cadence: Cadence, order: list[int]) -> list[tuple[str, str]]:
    """Return what each tick that advances shows, where pieces arrive in an order of sides and a tick follows each."""
    release, left = Release(cadence), [list(pieces[0]), list(pieces[1])]
    results = []
    step = 0
    while not release.is_over:
        side = order[step % len(order)] if any(left) else 0
        side = side if left[side] else 1 - side
        if left[side]:
            release.put(side, left[side].pop(0))
        for each in (0, 1):
            if not left[each]:
                release.end(each)
        before = release.position
        release.tick()
        if release.position > before:
            results.append(release.shown(before))
        step += 1
    return results


@given(TEXTS, TEXTS, CUTS, CUTS, st.lists(st.integers(0, 1), min_size=1, max_size=30))
def test_the_sequence_of_chunks_does_not_depend_on_speed_or_pieces(
    a: str, b: str, cut_a: list[int], cut_b: list[int], order: list[int]
) -> None:
    """For any pieces in any order the ticks that advance show the same chunks, and in the end both whole texts."""
    cadence = Cadence(chunk=7, reserve=20)
    result = released((cut(a, cut_a), cut(b, cut_b)), cadence, order)
    expected = [(a[at : at + 7], b[at : at + 7]) for at in range(0, max(len(a), len(b)), 7)]
    assert result == expected or (not a and not b)


def test_after_a_stall_both_sides_wait_until_both_are_complete() -> None:
    """How often a slow model stalls is not seen: there is at most one pause."""
    release = Release(Cadence(chunk=5, reserve=10))
    release.put(0, "x" * 100)
    release.put(1, "y" * 9)
    release.tick()
    assert release.position == 0  # one side has too little in reserve
    release.put(1, "y")
    for _ in range(4):
        release.tick()
    assert release.position == 10
    release.put(1, "y" * 50)  # it is back, but only both ends let them go on
    release.tick()
    assert release.position == 10
    release.end(0)
    release.tick()
    assert release.position == 10
    release.end(1)
    release.tick()
    assert release.shown(10) == ("x" * 5, "y" * 5)


def test_a_failure_ends_the_release() -> None:
    """Nothing is waited for."""
    release = Release()
    release.has_failed = True
    assert release.is_over
