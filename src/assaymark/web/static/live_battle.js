// Shows both answers of a live battle while they are released. Without this file the forms post and wait.
"use strict";
(() => {
  if (!window.EventSource || !window.DOMParser) return;
  const main = document.querySelector("main");

  const show = (html) => {
    const found = new DOMParser().parseFromString(html, "text/html").querySelector("main");
    if (!found) return false;
    const isRaw = document.getElementById("raw-text")?.checked;
    main.replaceChildren(...found.childNodes);
    if (isRaw && document.getElementById("raw-text")) document.getElementById("raw-text").checked = true;
    return true;
  };

  const reload = async () => {
    const load = fetch(location.pathname, { headers: { accept: "text/html" } });
    const html = await load.then((answer) => answer.status < 500 ? answer.text() : "").catch(() => "");
    if (!show(html)) return void setTimeout(reload, 2000); // the network, a proxy or the server fails for a moment
    const question = main.querySelector("[data-asks] textarea");
    const heading = main.querySelector("h1");
    heading.tabIndex = -1; // the keys 1 to 4 vote, so the focus is not in a field
    if (main.querySelector(".ballot")) heading.focus({ preventScroll: true });
    else if (question) question.focus();
    follow();
  };

  const follow = () => {
    const duel = main.querySelector("[data-events]");
    if (!duel) return;
    const sides = { a: duel.querySelector("[data-side=a]"), b: duel.querySelector("[data-side=b]") };
    const source = new EventSource(duel.dataset.events);
    source.onopen = () => Object.values(sides).forEach((side) => side.replaceChildren()); // a new stream begins at the start
    source.addEventListener("piece", (event) => {
      const piece = JSON.parse(event.data);
      for (const name of ["a", "b"]) sides[name].append(piece[name]); // text, never HTML
    });
    source.addEventListener("end", () => {
      source.close();
      reload();
    });
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) reload();
    };
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-asks]")) return;
    event.preventDefault();
    const button = event.submitter ?? form.querySelector("button");
    if (button.disabled) return;
    const fields = Object.fromEntries(new FormData(form, event.submitter)); // before the button, which may have a value, is disabled
    button.disabled = true;
    try {
      const answer = await fetch(form.action, { method: "POST", body: JSON.stringify(fields), headers: { "content-type": "application/json" } });
      if (answer.ok) return await reload();
      const text = await answer.text();
      const said = new DOMParser().parseFromString(text, "text/html").querySelector("main p");
      throw new Error(said ? said.textContent : `the server answered ${answer.status}`);
    } catch (error) {
      main.querySelector(".problems")?.remove();
      const line = document.createElement("p");
      line.className = "problems";
      line.setAttribute("role", "alert");
      line.textContent = error.message;
      form.before(line);
      button.disabled = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("[data-asks] textarea") && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  });
  follow();
})();
