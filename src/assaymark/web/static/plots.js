// Names the point that is nearest to the pointer, below its chart; the point itself is a link.
"use strict";
for (const frame of document.querySelectorAll(".plot")) {
  const drawings = [...frame.querySelectorAll("svg")].filter((svg) => svg.querySelector("a")); // for wide and narrow windows
  if (!drawings.length) continue;
  const line = document.createElement("p");
  line.className = "nearest";
  line.textContent = "\u00a0";
  frame.after(line);
  let nearest = null;
  for (const svg of drawings) svg.addEventListener("pointermove", (event) => {
    const links = [...svg.querySelectorAll("a")];
    const distance = (link) => { // to its box, since bars are long; of boxes that overlap the nearer centre counts
      const box = link.getBoundingClientRect();
      const x = Math.max(box.left - event.clientX, event.clientX - box.right, 0);
      const y = Math.max(box.top - event.clientY, event.clientY - box.bottom, 0);
      const off = Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
      return Math.hypot(x, y) + off / 1000;
    };
    const closest = links.reduce((best, link) => (distance(link) < distance(best) ? link : best));
    if (closest === nearest) return;
    nearest?.classList.remove("near");
    nearest = closest;
    nearest.classList.add("near");
    line.textContent = nearest.querySelector("title").textContent;
  });
}
