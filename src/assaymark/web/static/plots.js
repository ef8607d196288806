// Names the point that is nearest to the pointer or has the focus, below its chart; a click near a point opens it.
"use strict";
const NEAR = 24; // pixels from a point within which a click or a finger means it
for (const frame of document.querySelectorAll(".plot")) {
  const drawings = [...frame.querySelectorAll("svg")].filter((svg) => svg.querySelector("a")); // for wide and narrow windows
  if (!drawings.length) continue;
  const line = document.createElement("p");
  line.className = "nearest";
  line.textContent = "\u00a0";
  frame.after(line);
  let named = null;
  const name = (link) => {
    if (link === named) return;
    named?.classList.remove("near");
    named = link;
    named.classList.add("near");
    line.textContent = named.querySelector("title").textContent;
  };
  for (const svg of drawings) {
    const links = [...svg.querySelectorAll("a")];
    const gaps = (link, event) => { // to its box, since bars are long
      const box = link.getBoundingClientRect();
      const x = Math.max(box.left - event.clientX, event.clientX - box.right, 0);
      const y = Math.max(box.top - event.clientY, event.clientY - box.bottom, 0);
      const off = Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
      return Math.hypot(x, y) + off / 1000; // of boxes that overlap the nearer centre counts
    };
    const closest = (event) => links.reduce((best, link) => (gaps(link, event) < gaps(best, event) ? link : best));
    for (const kind of ["pointermove", "pointerdown"]) svg.addEventListener(kind, (event) => name(closest(event)));
    svg.addEventListener("click", (event) => {
      const link = closest(event);
      if (!event.target.closest("a") && gaps(link, event) < NEAR) location.assign(link.href.baseVal);
    });
    links[0].setAttribute("tabindex", "0"); // one stop of Tab for a chart; arrows move among its points
    svg.addEventListener("focusin", (event) => name(event.target.closest("a")));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = step && links[links.indexOf(event.target) + step];
      if (!next) return;
      event.target.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
      event.preventDefault();
    });
  }
}
