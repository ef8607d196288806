// Keys on voting pages: each button names its key in data-key. Without this script, Tab and Enter do the same.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input:not([type=radio], [type=checkbox]), textarea, select")) return;
  const found = document.querySelector(`[data-keys] [data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (!found) return;
  event.preventDefault();
  found.click();
});
