"use strict";
(() => {
  const model = JSON.parse(document.getElementById("model").textContent);
  const part = (id) => document.getElementById(id);
  const TOGETHER = Math.min(8, model.limits.files); // images of a request: few, so that the first results are soon there
  const SHOWN = 5; // classes of an image, where no threshold says which
  const ALMOST = 1e-7; // as near to 0 and 1 as a probability is taken to be
  let items = [];
  let made = 0;
  let isWorking = false;

  function element(tag, className, text) {
    const found = document.createElement(tag);
    if (className) found.className = className;
    if (text !== undefined) found.textContent = text;
    return found;
  }

  function corrected(p) {
    const clipped = Math.min(Math.max(p, ALMOST), 1 - ALMOST);
    const z = model.calibration.slope * Math.log(clipped / (1 - clipped)) + model.calibration.offset;
    return 1 / (1 + Math.exp(-z));
  }

  const isCalibrated = () => model.calibration !== null && part("calibrated").checked;
  const shown = (p) => (isCalibrated() ? corrected(p) : p);
  const percent = (p) => `${(100 * p).toFixed(1)}%`;

  // A row per class; its numbers are filled in by `refresh`.

  function row(item, name) {
    const line = element("li");
    const bar = element("span", model.thresholds === null ? "scale unmarked" : "scale");
    bar.setAttribute("aria-hidden", "true");
    const number = element("data");
    line.append(element("span", "name", name), bar, number);
    item.rows.push({ name, line, bar, number });
    return line;
  }

  function refresh(item) {
    for (const { name, line, bar, number } of item.rows) {
      const p = shown(item.probabilities[name]);
      bar.style.setProperty("--p", percent(p));
      number.value = String(p);
      number.textContent = p.toFixed(2);
      if (model.thresholds !== null) {
        const threshold = shown(model.thresholds[name]);
        bar.style.setProperty("--t", percent(threshold));
        line.title = `threshold ${threshold.toFixed(2)}`;
      }
    }
  }

  function bars(item, names, kind) {
    const list = element("ul", `bars ${kind}`);
    list.append(...names.map((name) => row(item, name)));
    return list;
  }

  function fill(item) {
    const surest = [...model.classes].sort((a, b) => item.probabilities[b] - item.probabilities[a]);
    const given = item.labels ?? surest.slice(0, SHOWN);
    const others = surest.filter((name) => !given.includes(name));
    item.said.replaceChildren();
    if (given.length) item.said.append(bars(item, given, item.labels === null ? "others" : "given"));
    else item.said.append(element("p", "none", `No label; the surest is ${surest[0]}, below its threshold.`));
    if (others.length) {
      const fold = element("details");
      const count = others.length === 1 ? "1 other class" : `${others.length} other classes`;
      fold.append(element("summary", "", given.length ? count : `all ${others.length} classes`));
      fold.addEventListener("toggle", () => {
        if (fold.open && fold.children.length === 1) {
          fold.append(bars(item, others, "others"));
          refresh(item);
        }
      });
      item.said.append(fold);
    }
    refresh(item);
  }

  function fail(item, reason) {
    item.reason = reason;
    item.said.replaceChildren(element("p", "wrong", `Failed: ${reason}`));
  }

  function card(item) {
    const place = element("li");
    const frame = element("div", "frame");
    const picture = element("img");
    picture.alt = "";
    picture.addEventListener("error", () => frame.replaceChildren(element("span", "gone", "no preview")));
    picture.src = item.address;
    frame.append(picture);
    const body = element("div", "body");
    const file = element("p", "file", item.name);
    file.title = item.name;
    body.append(file, item.said);
    const remove = element("button", "remove", "\u00d7");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${item.name}`);
    remove.addEventListener("click", () => {
      const next = place.nextElementSibling ?? place.previousElementSibling;
      forget([item]);
      (next?.querySelector(".remove") ?? part("files")).focus();
    });
    place.append(frame, body, remove);
    return place;
  }

  function forget(gone) {
    for (const item of gone) {
      URL.revokeObjectURL(item.address);
      item.place.remove();
    }
    items = items.filter((item) => !gone.includes(item));
    tell();
  }

  function tell() {
    const done = items.filter((item) => item.probabilities).length;
    const failed = items.filter((item) => item.reason).length;
    const open = items.length - done - failed;
    const images = items.length === 1 ? "image" : "images";
    part("status").textContent =
      `${done} of ${items.length} ${images} done` + (failed ? `, ${failed} failed` : "") + (open ? " \u2026" : "");
    part("found").hidden = items.length === 0;
    part("csv").disabled = part("json").disabled = done === 0;
  }

  function add(files) {
    for (const file of files) {
      made += 1;
      const item = {
        id: String(made), file, name: file.name || `image ${made}`, address: URL.createObjectURL(file),
        said: element("div"), rows: [], labels: null, probabilities: null, reason: null, isAsked: false,
      };
      item.said.append(element("p", "waiting", "waiting \u2026"));
      item.place = card(item);
      items.push(item);
      part("results").append(item.place);
      if (file.size > model.limits.file_bytes) fail(item, `has more than ${model.limits.file_bytes / 1e6} MB`);
    }
    tell();
    work();
  }

  function nextGroup() {
    const group = [];
    let bytes = 0;
    for (const item of items) {
      if (item.isAsked || item.reason) continue;
      bytes += item.file.size;
      if (group.length === TOGETHER || (group.length && bytes > model.limits.request_bytes)) break;
      group.push(item);
    }
    return group;
  }

  async function work() {
    if (isWorking) return;
    isWorking = true;
    for (let group = nextGroup(); group.length; group = nextGroup()) {
      for (const item of group) item.isAsked = true;
      try {
        await ask(group);
      } catch (error) {
        for (const item of group) if (!item.probabilities && !item.reason) fail(item, error.message);
      }
      tell();
    }
    isWorking = false;
  }

  async function ask(group) {
    const form = new FormData();
    for (const item of group) form.append("files", item.file, item.id); // two files may have the same name, but not the same id
    const response = await fetch("api/predict", { method: "POST", body: form }).catch(() => {
      throw new Error("the server does not answer");
    });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.detail ?? `the server answers ${response.status}`);
    const byId = new Map(group.map((item) => [item.id, item]));
    for (const { name, reason } of answer.errors) fail(byId.get(name), reason);
    for (const { name, labels, probabilities } of answer.images) {
      const item = byId.get(name);
      Object.assign(item, { labels, probabilities });
      fill(item);
    }
  }

  // Results as files, in the forms that `aevlp predict` and the interface have.

  function save(name, text, type) {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const digits = (p) => Number(p.toPrecision(7));
  const labelled = () => items.filter((item) => item.probabilities);
  const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  function asCsv() {
    const head = ["image", ...(model.thresholds === null ? [] : ["labels"]), ...model.classes];
    const lines = labelled().map((item) => [
      item.name,
      ...(item.labels === null ? [] : [item.labels.join(";")]),
      ...model.classes.map((name) => String(digits(shown(item.probabilities[name])))),
    ]);
    return [head, ...lines].map((line) => `${line.map(cell).join(",")}\n`).join("");
  }

  function asJson() {
    const images = labelled().map(({ name, labels, probabilities }) => ({
      name, labels, probabilities: Object.fromEntries(model.classes.map((c) => [c, digits(shown(probabilities[c]))])),
    }));
    const errors = items.filter((item) => item.reason).map(({ name, reason }) => ({ name, reason }));
    return `${JSON.stringify({ images, errors }, null, 2)}\n`;
  }

  part("csv").addEventListener("click", () => save("labels.csv", asCsv(), "text/csv"));
  part("json").addEventListener("click", () => save("labels.json", asJson(), "application/json"));
  part("clear").addEventListener("click", () => {
    forget([...items]);
    part("files").focus();
  });
  if (model.calibration !== null) part("calibrated").addEventListener("change", () => labelled().forEach(refresh));
  part("files").addEventListener("change", (event) => {
    add([...event.target.files]);
    event.target.value = ""; // so that the same file can be chosen again
  });

  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) document.body.classList.remove("dragging");
  });
  document.addEventListener("drop", (event) => {
    document.body.classList.remove("dragging");
    if (!hasFiles(event)) return;
    event.preventDefault();
    add([...event.dataTransfer.files]);
  });
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) add(files);
  });
})();
