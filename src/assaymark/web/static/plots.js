// Names the point that is nearest to the pointer, below its chart; a click anywhere near it follows its link.
"use strict";
for (const frame of document.querySelectorAll(".plot")) {
  const svg = frame.querySelector("svg");
  const links = svg ? [...svg.querySelectorAll("a")] : [];
  if (!links.length) continue;
  const line = document.createElement("p");
  line.className = "nearest";
  line.textContent = "\u00a0";
  frame.after(line);
  let nearest = null;
  svg.addEventListener("pointermove", (event) => {
    const distance = (link) => {
      const box = link.getBoundingClientRect();
      return Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
    };
    const found = links.reduce((best, link) => (distance(link) < distance(best) ? link : best));
    if (found === nearest) return;
    nearest?.classList.remove("near");
    nearest = found;
    nearest.classList.add("near");
    line.textContent = nearest.querySelector("title").textContent;
  });
}
