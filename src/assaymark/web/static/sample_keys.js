// j and k on samples: the next and the one before; in a list the link of the next or former row gets the focus.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const rows = [...document.querySelectorAll("table.samples tbody th a")];
  if (rows.length) {
    const at = rows.indexOf(document.activeElement);
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
    if (next) {
      event.preventDefault();
      next.focus();
      return;
    }
  }
  const link = document.querySelector(`nav.pager a[rel=${step > 0 ? "next" : "prev"}]`);
  if (link) link.click();
});
