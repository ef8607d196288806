// A form is sent once, also by a double click on a slow network: a second answer would say that there is one already.
"use strict";
window.addEventListener("submit", (event) => { // after the scripts of pages that send their forms themselves
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post" || form.matches(".chat")) return; // the chat's are downloads
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
});
const maySend = () => {
  for (const form of document.querySelectorAll("[data-sent]")) delete form.dataset.sent;
};
window.addEventListener("pageshow", maySend);
window.navigation?.addEventListener("navigateerror", maySend); // Stop was pressed before the answer came
// A filter or an order that could not be loaded into the page is opened as without scripts: the old table is not its.
for (const kind of ["htmx:sendError", "htmx:responseError"]) {
  document.addEventListener(kind, ({ detail }) => {
    if (detail.elt.matches("a, form")) location.assign(detail.pathInfo.finalRequestPath);
  });
}
