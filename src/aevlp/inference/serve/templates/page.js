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
    const z = model.calibration.slope * logit(p) + model.calibration.offset;
    return 1 / (1 + Math.exp(-z));
  }

  const isCalibrated = () => model.calibration !== null && part("calibrated").checked;
  const shown = (p) => (isCalibrated() ? corrected(p) : p);
  const logit = (p) => {
    const clipped = Math.min(Math.max(p, ALMOST), 1 - ALMOST);
    return Math.log(clipped / (1 - clipped));
  };
  const shift = () => (model.thresholds === null ? 0 : Number(part("shift").value));
  const threshold = (name) => {
    const fitted = model.thresholds[name];
    return shift() === 0 ? fitted : 1 / (1 + Math.exp(-logit(fitted) - shift()));
  };
  const percent = (p) => `${(100 * p).toFixed(1)}%`;

  // A row per class; its numbers are filled in by `refresh`.

  function row(item, name) {
    const line = element("li");
    const bar = element("span", model.thresholds === null ? "scale unmarked" : "scale");
    bar.setAttribute("aria-hidden", "true");
    const number = element("data");
    const label = element("label");
    const tick = element("input");
    tick.type = "checkbox";
    tick.checked = isGiven(item, name);
    tick.addEventListener("change", () => edit(item, name, tick.checked));
    label.append(tick, element("span", "name", name));
    line.classList.toggle("edited", item.edits.has(name));
    line.append(label, bar, number);
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
        const limit = shown(threshold(name));
        bar.style.setProperty("--t", percent(limit));
        line.title = `threshold ${limit.toFixed(2)}`;
      }
    }
  }

  function bars(item, names, kind) {
    const list = element("ul", `bars ${kind}`);
    list.append(...names.map((name) => row(item, name)));
    return list;
  }

  // The labels of an image: those above the thresholds, with what a person has changed.

  function predicted(item) {
    if (item.labels === null || shift() === 0) return item.labels ?? [];
    const surest = [...model.classes].sort((a, b) => item.probabilities[b] - item.probabilities[a]);
    return surest.filter((name) => item.probabilities[name] >= threshold(name));
  }

  const isGiven = (item, name) => item.edits.get(name) ?? predicted(item).includes(name);

  function labelsOf(item) {
    const added = [...item.edits].filter(([name, isThere]) => isThere && !predicted(item).includes(name)).map(([name]) => name);
    return [...predicted(item).filter((name) => item.edits.get(name) !== false), ...added];
  }

  function edit(item, name, isThere) {
    if (predicted(item).includes(name) === isThere) item.edits.delete(name);
    else item.edits.set(name, isThere);
    fill(item, name);
    tellCorrections();
  }

  function correction(item) {
    const present = item.isWhole ? labelsOf(item) : [...item.edits].filter(([, isThere]) => isThere).map(([name]) => name);
    const absent = [...item.edits].filter(([, isThere]) => !isThere).map(([name]) => name);
    if (!present.length && !absent.length && !item.isWhole) return null;
    return { image: item.name, present, absent, complete: item.isWhole };
  }

  const unsent = () =>
    labelled().filter((item) => correction(item) !== null && JSON.stringify(correction(item)) !== item.sent);

  function tellCorrections() {
    for (const item of labelled()) {
      item.kept.textContent = item.sent && JSON.stringify(correction(item)) === item.sent ? SENT : "";
    }
    part("send").disabled = unsent().length === 0;
  }

  function editor(item) {
    const add = element("p", "add");
    const field = element("input");
    field.setAttribute("list", "class-names");
    field.setAttribute("aria-label", `Add a label to ${item.name}`);
    field.placeholder = "add a label";
    field.autocomplete = "off";
    field.addEventListener("change", () => {
      const wanted = field.value.trim();
      const same = (each) => each.toLowerCase() === wanted.toLowerCase();
      const name = model.classes.find((each) => each === wanted) ?? model.classes.find(same);
      add.querySelector(".wrong")?.remove();
      if (name === undefined && wanted) add.append(element("span", "wrong", ` no class \u201c${wanted}\u201d`));
      if (name === undefined) return;
      field.value = "";
      edit(item, name, true);
    });
    add.append(field);
    const whole = element("label", "whole");
    const tick = element("input");
    tick.type = "checkbox";
    tick.addEventListener("change", () => {
      item.isWhole = tick.checked;
      tellCorrections();
    });
    whole.append(tick, " These are all its labels");
    item.edited.replaceChildren(add, whole, item.kept);
  }

  function fill(item, focused) {
    const isOpen = item.said.querySelector("details")?.open ?? false;
    const surest = [...model.classes].sort((a, b) => item.probabilities[b] - item.probabilities[a]);
    const touched = [...item.edits.keys()].filter((name) => !predicted(item).includes(name));
    const given = item.labels === null ? [...new Set([...surest.slice(0, SHOWN), ...touched])] : [...predicted(item), ...touched];
    const others = surest.filter((name) => !given.includes(name));
    item.said.replaceChildren();
    item.rows = [];
    if (given.length) item.said.append(bars(item, given, item.labels === null ? "others" : "given"));
    else item.said.append(element("p", "none", `No label; the surest is ${surest[0]}, below its threshold.`));
    if (others.length) {
      const fold = element("details");
      const count = others.length === 1 ? "1 other class" : `${others.length} other classes`;
      fold.append(element("summary", "", given.length ? count : `all ${others.length} classes`));
      const unfold = () => {
        if (fold.open && fold.children.length === 1) {
          fold.append(bars(item, others, "others"));
          refresh(item);
        }
      };
      fold.addEventListener("toggle", unfold);
      item.said.append(fold);
      fold.open = isOpen;
      unfold();
    }
    refresh(item);
    if (focused !== undefined) item.rows.find(({ name }) => name === focused)?.line.querySelector("input").focus();
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
    body.append(file, item.said, item.edited);
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
    tellCorrections();
  }

  function add(files) {
    for (const file of files) {
      made += 1;
      const item = {
        id: String(made), file, name: file.name || `image ${made}`, address: URL.createObjectURL(file),
        said: element("div"), edited: element("div"), kept: element("p", "kept"), rows: [], edits: new Map(), isWhole: false,
        sent: null, labels: null, probabilities: null, reason: null, isAsked: false,
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
      editor(item);
    }
  }

  // Corrections, as answers.

  const SENT = model.keeps_answers ? "Sent and kept." : "Saved.";

  async function send() {
    const items = unsent();
    const corrections = items.map(correction);
    const who = part("who").value.trim();
    part("send").disabled = true;
    part("sent").textContent = "";
    try {
      const response = await fetch(model.keeps_answers ? "api/answers" : "api/answers/file", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(who ? { who, corrections } : { corrections }),
      }).catch(() => {
        throw new Error("the server does not answer");
      });
      if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? `the server answers ${response.status}`);
      if (!model.keeps_answers) save("answers.sqlite", await response.blob(), "application/vnd.sqlite3");
      items.forEach((item, place) => (item.sent = JSON.stringify(corrections[place])));
      part("sent").textContent = `${items.length} ${items.length === 1 ? "image" : "images"}: ${SENT.toLowerCase()}`;
    } catch (error) {
      part("sent").textContent = `Not kept: ${error.message}.`;
    }
    tellCorrections();
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
      ...(item.labels === null ? [] : [labelsOf(item).join(";")]),
      ...model.classes.map((name) => String(digits(shown(item.probabilities[name])))),
    ]);
    return [head, ...lines].map((line) => `${line.map(cell).join(",")}\n`).join("");
  }

  function asJson() {
    const images = labelled().map((item) => ({
      name: item.name,
      labels: item.labels === null ? null : labelsOf(item),
      probabilities: Object.fromEntries(model.classes.map((c) => [c, digits(shown(item.probabilities[c]))])),
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
  part("send").addEventListener("click", send);
  if (model.thresholds !== null) {
    const move = () => {
      const value = shift();
      part("shift-value").textContent = value === 0 ? "as fitted" : `${value > 0 ? "+" : "\u2212"}${Math.abs(value).toFixed(1)}`;
      part("shift-reset").disabled = value === 0;
      labelled().forEach((item) => fill(item));
      tellCorrections();
    };
    part("shift").addEventListener("input", move);
    part("shift-reset").addEventListener("click", () => {
      part("shift").value = "0";
      move();
      part("shift").focus();
    });
    part("shift").value = "0"; // not what the browser remembers
    move();
  }
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
