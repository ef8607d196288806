// Shows answers while they are generated. Without this file the form posts, and the page comes back with the answers.
"use strict";
(() => {
  const form = document.querySelector("form.chat");
  if (!form || !window.ReadableStream) return;
  const rounds = form.querySelector(".rounds");
  const alertLine = form.querySelector("p[role=alert]");
  const stop = form.querySelector(".stop");
  const send = form.querySelector("button[type=submit]");
  let asking = null;

  const element = (name, className, text = "") => {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text; // never HTML: a model's words are data
    return made;
  };

  const addRound = (question, names) => {
    const round = element("section", "round");
    const answers = element("div", "answers");
    const sides = names.map((name) => {
      const box = element("div", "answer open");
      const text = element("p", "text");
      box.append(element("h2", "", name), text);
      answers.append(box);
      return { name, box, text, answer: "", problem: "" };
    });
    round.append(element("p", "question", question), answers);
    rounds.append(round);
    return { round, sides };
  };

  const take = (sides, kind, data) => {
    const side = sides[data.side];
    if (kind === "piece") {
      side.answer += data.text;
      side.text.textContent = side.answer.trimStart();
    } else {
      side.box.classList.remove("open");
      if (kind === "problem") {
        side.problem = data.text;
        side.text.replaceWith(element("p", "problems", data.text));
      } else side.isComplete = true;
    }
  };

  const readEvents = async (answer, sides) => {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const lines = Object.fromEntries(event.split("\n").map((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]));
        if (lines.event) take(sides, lines.event, JSON.parse(lines.data));
      }
    }
  };

  const remember = (question, sides) => {
    const answered = sides.filter((side) => !side.problem && (side.isComplete || side.answer));
    if (!answered.length) return;
    const rounds = JSON.parse(form.elements.history.value || "[]");
    rounds.push([question, Object.fromEntries(answered.map((side) => [side.name, side.answer.trim()]))]);
    form.elements.history.value = JSON.stringify(rounds);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const question = form.elements.text.value.trim();
    if (!question || asking) return;
    const second = form.elements.second ? form.elements.second.value : "";
    const names = [...new Set([form.elements.first.value, second].filter(Boolean))];
    const { round, sides } = addRound(question, names);
    alertLine.hidden = true;
    asking = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    try {
      const answer = await fetch(form.dataset.stream, { method: "POST", body: new URLSearchParams(new FormData(form)), signal: asking.signal });
      if (!answer.ok) {
        const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main p");
        throw new Error(found ? found.textContent : `the server answered ${answer.status}`);
      }
      await readEvents(answer, sides);
    } catch (error) {
      if (error.name !== "AbortError") {
        alertLine.textContent = error.message;
        alertLine.hidden = false;
      }
    }
    const hasAnswer = sides.some((side) => side.isComplete || side.answer);
    for (const side of sides) side.box.classList.remove("open");
    if (hasAnswer) form.elements.text.value = "";
    else if (!sides.some((side) => side.problem)) round.remove();
    remember(question, sides);
    asking = null;
    send.disabled = false;
    stop.hidden = true;
    form.elements.text.focus();
  });
  stop.addEventListener("click", () => asking && asking.abort());
  form.elements.text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
})();
