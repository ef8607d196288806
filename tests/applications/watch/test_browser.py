"""The page of quality in a browser: signing in, what axe-core finds, narrow screens, and points that are followed."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assaymark.applications.watch.alarm_log import AlarmLog
from assaymark.applications.watch.alarms import new_alarm, watch_once
from tests.applications.traces.sending import Receiver
from tests.applications.watch.filling import fill
from tests.applications.watch.test_alarms import BEGAN, N_BASELINE, RATE, drop, helpful
from tests.web.test_browser import SMALL_TARGETS

pytestmark = pytest.mark.slow


@pytest.fixture
def alarmed(receiver: Receiver) -> Receiver:
    """Return a server with two versions and a raised alarm."""
    now = time.time()
    made = [replace(each, at=each.at - BEGAN + now - 7200) for each in helpful(drop(np.random.default_rng(1)))]
    AlarmLog(receiver.store).add(receiver.project, new_alarm("quality", ["helpful"], RATE, n_baseline=N_BASELINE))
    fill(receiver.store, receiver.project, made)
    assert len(watch_once(receiver.store, now)) == 1
    return receiver


def test_axe_finds_nothing(alarmed: Receiver, browser: Any, axe: Callable[[Any], list[str]]) -> None:
    """axe-core finds nothing on the page with charts, alarms and opened tables, and what is pressed is large enough."""
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(f"{alarmed.url}/traces/quality?days=1")
    page.get_by_label("Token").fill(alarmed.token)
    with page.expect_navigation():
        page.get_by_role("button", name="Read").click()
    assert page.get_by_role("heading", name="Quality over time").is_visible()
    for summary in page.locator("details > summary").all():
        summary.click()
    assert axe(page) == []
    assert page.evaluate(SMALL_TARGETS) == []
    context.close()


def test_a_phone_and_the_points(alarmed: Receiver, browser: Any) -> None:
    """At 320 pixels only charts and tables scroll; a point leads to its traces, the alarm's line to its trace."""
    headers = {"Authorization": f"Bearer {alarmed.token}"}
    context = browser.new_context(viewport={"width": 320, "height": 640}, extra_http_headers=headers)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{alarmed.url}/traces/quality?days=1")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    addresses = page.locator("svg.chart a").evaluate_all("links => links.map(link => link.href.baseVal)")
    assert any(address.startswith("/trace/") for address in addresses)
    page.goto(alarmed.url + next(address for address in addresses if address.startswith("/traces?start=")))
    assert page.locator("table.traces tbody tr").count() > 0
    assert complaints == []
    context.close()
