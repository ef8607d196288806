// Progress of a submission, from the server's events; when its state changes, the page is loaded again.
"use strict";
(() => {
  const shown = document.getElementById("live");
  const bar = document.getElementById("bar");
  if (!shown || !window.EventSource) return;
  let events;
  const follow = () => {
    events?.close(); // a kept page is shown again while another try is due
    events = new EventSource(shown.dataset.events);
    events.onmessage = (event) => {
      const now = JSON.parse(event.data);
      if (now.state !== shown.dataset.state) {
        events.close();
        location.reload();
        return;
      }
      shown.textContent = now.standing;
      if (bar && now.done !== null) bar.value = now.done;
    };
    events.onerror = () => { // refused for a moment: then the browser does not try again itself
      if (events.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
    };
  };
  addEventListener("pageshow", follow); // also when the browser shows a kept page again
  addEventListener("pagehide", () => events?.close());
})();
