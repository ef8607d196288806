"""Pieces of a streamed text: nothing of a stop text is sent, and nothing else is held back."""

from collections.abc import Sequence

import pytest

from assaymark.hosting.answer_bodies import TextStream


class Letters:
    """A tokenizer whose tokens are code points."""

    all_special_ids: Sequence[int] = ()

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of tokens."""
        return "".join(map(chr, token_ids))


@pytest.mark.parametrize(
    ("text", "stops", "pieces"),
    [
        ("abc", [], ["a", "b", "c"]),
        ("abcd", ["xyz"], ["a", "b", "c", "d"]),
        ("abxz", ["xy"], ["a", "b", "", "xz"]),
        ("ab\n\nc", ["\n\n"], ["a", "b", "", "", ""]),
        ("stop it", ["stop"], [""] * 7),  # an answer that begins with it
        ("STstop", ["stop", "STUV"], ["", "", "ST", "", "", ""]),
    ],
)
def test_only_what_may_begin_a_stop_text_is_held(text: str, stops: list[str], pieces: list[str]) -> None:
    """Each character is sent as it comes, unless a stop text may begin with it."""
    stream = TextStream(Letters(), stops)
    assert [stream.add([ord(letter)]) for letter in text] == pieces
