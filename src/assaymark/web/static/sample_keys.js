// Keys on samples: j and k, Escape, / and ?; in a list j and k move the focus among its rows.
"use strict";
const KEYS = [["j, k", "next, previous"], ["Enter", "open"], ["Escape", "back to the list"], ["/", "search"], ["?", "these keys"]];
const inForm = (event) => event.target.closest("input, textarea, select, dialog[open]");

function showKeys() {
  const dialog = document.createElement("dialog");
  const list = dialog.appendChild(document.createElement("dl"));
  list.className = "facts";
  for (const [key, meaning] of KEYS) {
    list.appendChild(document.createElement("dt")).textContent = key;
    list.appendChild(document.createElement("dd")).textContent = meaning;
  }
  dialog.setAttribute("aria-label", "Keys");
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || inForm(event)) return;
  const rows = [...document.querySelectorAll("table.samples tbody th a")];
  const search = document.getElementById("q");
  if (event.key === "?") showKeys();
  else if (event.key === "/" && search) search.focus();
  else if (event.key === "Escape" && !rows.length) document.querySelector(".crumbs a:last-of-type")?.click();
  else {
    const step = { j: 1, k: -1 }[event.key];
    if (!step) return;
    const at = rows.indexOf(document.activeElement);
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
    if (next) next.focus();
    else document.querySelector(`nav.pager a[rel=${step > 0 ? "next" : "prev"}]`)?.click();
  }
  event.preventDefault();
});
