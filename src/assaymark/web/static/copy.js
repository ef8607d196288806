// A button beside each command, citation, prompt and answer that copies its text.
"use strict";
const inOldWay = (text) => { // the clipboard is closed to pages over plain HTTP
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
};
for (const block of document.querySelectorAll("pre.command, pre.cite, pre.text, div.text.answer")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy second small";
  button.textContent = "copy";
  const frame = document.createElement("div");
  frame.className = "copied";
  block.replaceWith(frame);
  frame.append(block, button);
  button.addEventListener("click", async () => {
    const text = (block.querySelector(".raw") ?? block).textContent;
    const done = await (navigator.clipboard?.writeText(text).then(() => true, () => inOldWay(text)) ?? inOldWay(text));
    button.textContent = done ? "copied" : "not copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
}
