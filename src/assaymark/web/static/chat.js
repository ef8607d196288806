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

  const saving = form.querySelector("details.task");

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
      const text = element("div", "text");
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
        side.text.after(element("p", "problems", data.text)); // what came before stays
      } else {
        side.isComplete = true;
        const rendered = element("div", "rendered");
        rendered.innerHTML = data.text; // made by the server from an allow-list; the page's policy runs no script in it
        side.text.replaceChildren(rendered, element("div", "raw", side.answer.trim()));
      }
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
    if (!answered.length) return false;
    const rounds = JSON.parse(form.elements.history.value || "[]");
    rounds.push([question, Object.fromEntries(answered.map((side) => [side.name, side.answer.trim()]))]);
    form.elements.history.value = JSON.stringify(rounds);
    saving.querySelector(".saves").replaceChildren(...answered.map((side) => {
      const save = element("button", "second", `Answers of ${side.name}`);
      Object.assign(save, { type: "submit", formNoValidate: true, name: "of", value: side.name });
      save.setAttribute("formaction", "/chat/task");
      return save;
    }));
    saving.hidden = false;
    return true;
  };

  // The last question once more: its round goes, with the answers that are in the history.
  const askAgain = (round, question, isRemembered) => {
    round.remove();
    if (isRemembered) form.elements.history.value = JSON.stringify(JSON.parse(form.elements.history.value).slice(0, -1));
    form.elements.text.value = question;
    form.requestSubmit();
  };

  form.addEventListener("submit", async (event) => {
    if (event.submitter?.hasAttribute("formaction")) return; // a download
    event.preventDefault();
    if (event.submitter?.name === "again") {
      const [question] = JSON.parse(form.elements.history.value).at(-1);
      askAgain(event.submitter.closest(".round"), question, true);
      return;
    }
    const question = form.elements.text.value.trim();
    if (!question || asking) return;
    const second = form.elements.second ? form.elements.second.value : "";
    const names = [...new Set([form.elements.first.value, second].filter(Boolean))];
    for (const button of rounds.querySelectorAll(".again")) button.remove();
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
      if (sides.some((side) => !side.isComplete && !side.problem)) throw new Error("the answer broke off");
    } catch (error) {
      const hasBegun = sides.some((side) => side.isComplete || side.answer);
      if (error.name !== "AbortError" && hasBegun) { // what came of an answer is shown, and is no answer
        sides.forEach((side, index) => {
          if (!side.isComplete && !side.problem) take(sides, "problem", { side: index, text: error.message });
        });
      } else if (error.name !== "AbortError") {
        alertLine.textContent = error.message;
        alertLine.hidden = false;
      }
    }
    const hasAnswer = sides.some((side) => side.isComplete || side.answer);
    for (const side of sides) side.box.classList.remove("open");
    if (hasAnswer) form.elements.text.value = "";
    else if (!sides.some((side) => side.problem)) round.remove();
    const isRemembered = remember(question, sides);
    if (sides.some((side) => side.problem)) {
      const again = element("button", "second again", "Ask again");
      again.type = "button";
      again.addEventListener("click", () => askAgain(round, question, isRemembered));
      round.append(again);
    }
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
