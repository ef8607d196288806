"""The routes of studies: everything is below the address of an invitation, which only its rater has."""

from functools import partial

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from assaymark.arena.pages.live_battle import StudyPage
from assaymark.arena.routes.arena import DRAWING
from assaymark.arena.studies.sessions import AnsweredAlready, StudySessions
from assaymark.web.app import Feature
from assaymark.web.posts import Form
from assaymark.web.render import respond

PRIVATE = {"cache-control": "no-store", "referrer-policy": "same-origin", "x-robots-tag": "noindex"}
QUESTION = "q_"  # begins the field of a question


def studies_feature(session: StudySessions) -> Feature:
    """Return studies as a part of the application; no page links to them."""
    return Feature(partial(_add, session=session), drawing=DRAWING)


def _add(app: FastAPI, *, session: StudySessions) -> None:
    @app.get("/study/{token}")
    def step(request: Request, token: str) -> Response:
        study_step = session.step(token)
        page = StudyPage(study_step, f"/study/{token}", app.state.posts.token(request))
        response = respond(request, f"study_{study_step.kind}.html", page)
        response.headers.update(PRIVATE)
        return response

    @app.post("/study/{token}/consent")
    def consent(token: str, form: Form) -> Response:
        said = {name.removeprefix(QUESTION): form.text(name) for name in form.fields if name.startswith(QUESTION)}
        session.consent(token, form.text("consent") == "yes", said)
        return RedirectResponse(f"/study/{token}", 303)

    @app.post("/study/{token}/answer")
    def answer(token: str, form: Form) -> Response:
        position = form.text("position")
        if not position.isascii() or not position.isdigit() or len(position) > 6:
            raise HTTPException(400, "the form names no comparison; load the page again")
        said = {name.removeprefix(QUESTION): form.text(name) for name in form.fields if name.startswith(QUESTION)}
        try:
            session.answer(token, int(position), said)
        except AnsweredAlready as error:
            raise HTTPException(409, str(error)) from error
        return RedirectResponse(f"/study/{token}", 303)
