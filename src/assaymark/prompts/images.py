"""Images in prompts: a text has `<image>` where one belongs, and a message has the image itself there.

Source: lm-evaluation-harness 0.4.13, models/hf_vlms.py (the placeholder, and texts and images in turn).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assaymark.errors import MalformedSample
from assaymark.prompts.prompter import Prompt
from assaymark.records import ImagePart, Message, Render, TextPart

PLACEHOLDER = "<image>"


def check_places(text: str, n_images: int) -> str:
    """Return a question with a place for each image: before the question where it has no `<image>` at all.

    Raises: MalformedSample for a text with another number of places.
    """
    n_places = text.count(PLACEHOLDER)
    if not n_places:
        return PLACEHOLDER * n_images + ("\n" if n_images and text else "") + text
    if n_places != n_images:
        raise MalformedSample(f"the question has {n_places} times {PLACEHOLDER} and the row {n_images} images")
    return text


def place_images(messages: Sequence[Message], images: Sequence[ImagePart]) -> tuple[Message, ...]:
    """Return messages with each image in place of its `<image>`, in order.

    Raises: MalformedSample where places and images differ in number, as with shots that have places.
    """
    n_places = sum(message.text.count(PLACEHOLDER) for message in messages)
    if n_places != len(images):
        raise MalformedSample(f"the prompt has {n_places} times {PLACEHOLDER} and the row {len(images)} images")
    left = iter(images)
    return tuple(replace(message, parts=tuple(_parts(message.text, left))) for message in messages)


def _parts(text: str, images: Iterator[ImagePart]) -> Iterator[TextPart | ImagePart]:
    first, *rest = text.split(PLACEHOLDER)
    if first or not rest:
        yield TextPart(first)
    for piece in rest:
        yield next(images)
        if piece:
            yield TextPart(piece)


def messages_with(prompt: Prompt, images: Sequence[ImagePart]) -> tuple[Message, ...]:
    """Return a prompt's messages with its images; without a chat template, one message of the user."""
    messages = prompt.messages or (Message("user", (TextPart("".join(prompt.segments)),)),)
    return place_images(messages, images)


def placing(render: Render | None, images: Sequence[ImagePart]) -> Render | None:
    """Return the function that renders a conversation after its images were put in their places."""
    if render is None:
        return None
    renderer = render

    def rendered(messages: Sequence[Message], continue_final: bool, /, tools: str | None = None) -> str:
        placed = place_images(messages, images)
        return renderer(placed, continue_final) if tools is None else renderer(placed, continue_final, tools=tools)

    return rendered
