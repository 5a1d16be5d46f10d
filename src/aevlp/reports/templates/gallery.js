"use strict";
// Galleries of examples: filter by class, enlarge, copy a path or a command.
(() => {
  const enlarged = document.getElementById("enlarged");
  if (!enlarged) return;
  const part = (name) => enlarged.querySelector(`[data-part="${name}"]`);
  const all = [...document.querySelectorAll(".gallery > li")];
  const choices = [...document.querySelectorAll("select[data-examples]")];
  const shown = () => all.filter((item) => !item.hidden);
  let open = null;

  function filter(label) {
    for (const item of all) item.hidden = label !== "" && item.dataset.label !== label;
    for (const gallery of document.querySelectorAll(".gallery")) {
      gallery.nextElementSibling.hidden = [...gallery.children].some((item) => !item.hidden);
    }
    for (const choice of choices) {
      choice.value = label;
      choice.closest(".filter").querySelector("output").textContent = label === "" ? "" : `${shown().length} of ${all.length} examples`;
    }
  }

  function show(item) {
    open = item;
    const picture = item.querySelector("svg.tiles, .frame img, .gone").cloneNode(true);
    part("picture").replaceChildren(picture);
    part("about").replaceChildren(...[...item.querySelectorAll(".about")].map((line) => line.cloneNode(true)));
    part("path").textContent = item.dataset.path;
    part("review").textContent = item.dataset.review ?? "";
    part("review-part").hidden = !item.dataset.review;
    const items = shown();
    const place = items.indexOf(item);
    part("place").textContent = `${place + 1} of ${items.length}`;
    for (const step of [-1, 1]) enlarged.querySelector(`[data-step="${step}"]`).disabled = !items[place + step];
    part("said").textContent = "";
    enlarged.setAttribute("aria-label", `${item.dataset.label}: ${item.dataset.name}`);
    if (!enlarged.open) enlarged.showModal();
  }

  function step(by) {
    const items = shown();
    const next = items[items.indexOf(open) + by];
    if (next) show(next);
  }

  async function copy(text, source, said) {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "copied";
    } catch { // the browser does not allow it: the text is marked, for the keys that copy
      getSelection().selectAllChildren(source);
      said.textContent = "marked: copy it with Ctrl+C";
    }
  }

  for (const choice of choices) choice.addEventListener("change", () => filter(choice.value));
  for (const item of all) {
    item.querySelector("button.enlarge").addEventListener("click", () => show(item));
    const button = item.querySelector("button.copy");
    button.addEventListener("click", () => copy(item.dataset.path, item.querySelector(".file"), button.nextElementSibling));
  }
  for (const button of enlarged.querySelectorAll("[data-copies]")) {
    const source = part(button.dataset.copies);
    button.addEventListener("click", () => copy(source.textContent, source, part("said")));
  }
  for (const button of enlarged.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => step(Number(button.dataset.step)));
  }
  enlarged.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") step(event.key === "ArrowRight" ? 1 : -1);
  });
  enlarged.addEventListener("close", () => open.querySelector("button.enlarge").focus());
  enlarged.addEventListener("click", (event) => {
    if (event.target === enlarged) enlarged.close(); // beside the dialog
  });
  filter("");
})();
