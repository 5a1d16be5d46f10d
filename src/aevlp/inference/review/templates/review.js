"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const part = (id) => document.getElementById(id);
  const percent = (share) => `${Math.round(100 * share)} %`; // precision and recall
  const probability = (p) => p.toFixed(2); // confidences and scores of the teacher
  const number = (value) => value.toLocaleString("en");
  const counted = (count, unit) => `${number(count)} ${unit}${count === 1 ? "" : "s"}`;
  const MOST_MATCHES = 8;
  const MOST_HISTORY = 500;
  const MODES = ["class", "image", "queue", "audit"];

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text; // names are text, never markup
    return made;
  }

  // This window, and the server.

  function holder() {
    let found = sessionStorage.getItem("holder");
    if (!found) {
      const bytes = crypto.getRandomValues(new Uint8Array(12));
      found = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
      sessionStorage.setItem("holder", found);
    }
    return found;
  }

  let mode = "";
  let keys = 0; // pressed and clicked since the last answer
  let since = performance.now(); // the last answer, or the first look at what is to be answered

  function effort() {
    return { keys, seconds: Math.max(0, (performance.now() - since) / 1000) };
  }

  function restart() {
    keys = 0;
    since = performance.now();
  }

  class Refused extends Error {}

  async function ask(path, body) {
    const who = part("who").value.trim();
    if (!who) {
      part("who").focus();
      throw new Refused("Say who you are first: your name goes with your answers.");
    }
    const response = await fetch(`api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ who, holder: holder(), set: facts.set, ...body }),
    }).catch(() => {
      throw new Error("The server does not answer, so nothing was kept. Is it still running? Try again.");
    });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refused(`Not kept: ${answer.detail ?? `the server answers ${response.status}`}.`);
    if (answer.progress) showProgress(answer.progress);
    complain("");
    return answer;
  }

  function complain(text) {
    part("wrong").textContent = text;
    part("wrong").hidden = text === "";
  }

  function say(text) {
    part("said").textContent = text;
  }

  let isBusy = false;
  let waiting = []; // undo, and keys about the image on the screen, pressed while an answer was on its way
  let isLeaving = false; // another mode was asked for meanwhile
  // One action at a time: a second Enter must not settle what nobody has seen.
  async function alone(act) {
    if (isBusy) return;
    isBusy = true;
    part("main").setAttribute("aria-busy", "true");
    try {
      await act();
    } catch (error) {
      complain(error.message);
      if (error instanceof Refused && part("who").value.trim() && mode === "class") await nextGrid();
    } finally {
      isBusy = false;
      part("main").setAttribute("aria-busy", "false");
    }
    if (isLeaving) go();
    else if (waiting.length) {
      const key = waiting.shift();
      if (key === "u") alone(undo);
      else imageKey({ key });
    }
  }

  function duration(seconds) {
    if (seconds < 90) return `${Math.round(seconds)} s`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  }

  function showProgress(progress) {
    part("bar").max = Math.max(progress.total, 1);
    part("bar").value = progress.answered;
    const parts = [`${number(progress.answered)} of ${number(progress.total)} labels answered`];
    if (progress.rate !== null) parts.push(`${Math.round(progress.rate)} per minute`);
    if (progress.answered < progress.total) parts.push(`about ${duration(progress.seconds_left)} left`);
    if (progress.audit) parts.push(`audit ${progress.audited} of ${progress.audit}`);
    if (progress.people.length > 1) parts.push(`here now: ${progress.people.join(", ")}`);
    part("pace").textContent = parts.join(" \u00b7 ");
  }

  // A field that finds a class by its first letters.

  const lower = facts.classes.map((name) => name.toLowerCase());

  function matches(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const ranked = [[], [], []];
    lower.forEach((name, label) => {
      if (name.startsWith(wanted)) ranked[0].push(label);
      else if (name.split(/[\s_-]+/).some((word) => word.startsWith(wanted))) ranked[1].push(label);
      else if (name.includes(wanted)) ranked[2].push(label);
    });
    return ranked.flat().slice(0, MOST_MATCHES);
  }

  function chooser(input, list, choose) {
    let found = [];
    let chosen = 0;
    const close = () => {
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    };
    const show = () => {
      found = matches(input.value);
      chosen = Math.max(0, Math.min(chosen, found.length - 1));
      list.replaceChildren(...found.map((label, place) => {
        const line = element("li", "", facts.classes[label]);
        line.id = `${list.id}-${place}`;
        line.setAttribute("role", "option");
        line.setAttribute("aria-selected", String(place === chosen));
        line.addEventListener("mousedown", (event) => {
          event.preventDefault(); // the field keeps the focus until the choice is made
          pick(label);
        });
        return line;
      }));
      list.hidden = found.length === 0;
      input.setAttribute("aria-expanded", String(found.length > 0));
      if (found.length) input.setAttribute("aria-activedescendant", `${list.id}-${chosen}`);
      else input.removeAttribute("aria-activedescendant");
    };
    const pick = (label) => {
      input.value = "";
      close();
      choose(label);
    };
    input.addEventListener("input", () => {
      chosen = 0;
      show();
    });
    input.addEventListener("blur", close);
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        chosen += event.key === "ArrowDown" ? 1 : -1;
        show();
      } else if (event.key === "Enter") {
        event.preventDefault();
        if (found.length && !list.hidden) pick(found[chosen]);
        else if (!input.value.trim()) choose(null);
      } else if (event.key === "Escape") {
        input.value = "";
        close();
        input.blur();
        choose(undefined);
      }
    });
  }

  // By class.

  let grid = null;
  let ahead = null; // the promise of the next grid
  let wished = null; // the class that was chosen
  let marks = new Map(); // cell -> "mark" or "open"
  let at = 0;

  const cellButtons = () => [...part("cells").children];
  const picture = (row, size) => `image/${row}?size=${size}&set=${facts.set}`;

  function cellButton(cell, place) {
    const button = element("button", "cell");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.tabIndex = place === at ? 0 : -1;
    const shown = element("img");
    shown.alt = "";
    shown.addEventListener("error", () => shown.replaceWith(element("span", "gone", "cannot be shown")));
    shown.src = picture(cell.row, 256);
    const caption = element("span", "caption");
    caption.append(element("span", "", probability(cell.confidence)));
    if (cell.kind === "doubted") caption.append(element("span", "doubt", "doubted"));
    button.append(shown, element("span", "badge"), caption, element("span", "quiet", cell.file));
    button.title = cell.file;
    button.addEventListener("click", () => {
      moveTo(place);
      mark(place, "mark");
    });
    button.addEventListener("focus", () => moveTo(place, false));
    return button;
  }

  function showGrid(found, marked = []) {
    grid = found;
    marks = new Map(marked.map((cell) => [cell, "mark"]));
    at = 0;
    restart();
    const hasGrid = grid !== null;
    part("cells").hidden = part("grid-actions").hidden = !hasGrid;
    part("no-grid").hidden = hasGrid;
    if (!hasGrid) {
      part("question").textContent = wished === null ? "Nothing is left to ask" : `Nothing is left of \u201c${facts.classes[wished]}\u201d`;
      part("why").textContent = "";
      part("no-grid").textContent = facts.hasScores
        ? "Every proposed label is answered, or somebody else is looking at it. The audit and the images are still open."
        : "This image set has no proposed labels. aevlp label DATA --out completed.jsonl makes them; then review that file.";
      part("cells").replaceChildren();
      return;
    }
    part("question").textContent = `Is this \u201c${facts.classes[grid.label]}\u201d?`;
    part("why").textContent = `${grid.reason}. ${number(grid.open)} of this class ${grid.open === 1 ? "is" : "are"} open.`;
    part("cells").replaceChildren(...grid.cells.map(cellButton));
    grid.cells.forEach((_, place) => showMark(place));
    showEffect();
    cellButtons()[0].focus({ preventScroll: true });
  }

  function showMark(place) {
    const button = cellButtons()[place];
    const state = marks.get(grid.cells[place].cell);
    const exception = grid.accepts ? "no" : "yes";
    const name = facts.classes[grid.label];
    button.setAttribute("aria-pressed", String(state === "mark"));
    if (state === undefined) delete button.dataset.mark;
    else button.dataset.mark = state === "open" ? "open" : exception;
    const words = { open: "not sure", no: `not ${name}`, yes: name };
    button.querySelector(".badge").textContent = state === undefined ? "" : words[button.dataset.mark];
  }

  function mark(place, kind) {
    const { cell } = grid.cells[place];
    if (marks.get(cell) === kind) marks.delete(cell);
    else marks.set(cell, kind);
    showMark(place);
    showEffect();
  }

  function counts() {
    const states = grid.cells.map(({ cell }) => marks.get(cell));
    const marked = states.filter((state) => state === "mark").length;
    const open = states.filter((state) => state === "open").length;
    return { marked, open, rest: states.length - marked - open };
  }

  function showEffect() {
    const { marked, open, rest } = counts();
    const name = `\u201c${facts.classes[grid.label]}\u201d`;
    const are = (count, isLabel) => `${count === 1 ? "is" : "are"}${isLabel ? "" : " not"}`;
    const exceptions = marked ? `, the ${marked} marked ${are(marked, !grid.accepts)}` : "";
    const left = open ? `, ${open} ${open === 1 ? "stays" : "stay"} open` : "";
    part("effect").textContent = `Enter: ${rest} ${are(rest, grid.accepts)} ${name}${exceptions}${left}.`;
    part("settle-text").textContent = grid.accepts ? "Accept the rest" : "Reject the rest";
    part("other-text").textContent = grid.accepts ? "Reject the rest" : "Accept the rest";
    part("other-key").textContent = grid.accepts ? "r" : "a";
  }

  function moveTo(place, focuses = true) {
    const buttons = cellButtons();
    at = Math.max(0, Math.min(place, buttons.length - 1));
    buttons.forEach((button, number) => (button.tabIndex = number === at ? 0 : -1));
    if (focuses) buttons[at].focus();
  }

  function columns() {
    return getComputedStyle(part("cells")).gridTemplateColumns.split(" ").length;
  }

  function prefetch() {
    const label = wished;
    ahead = ask("grid", { label, ahead: true }).then(
      ({ grid: found }) => {
        for (const { row } of found?.cells ?? []) new Image().src = picture(row, 256);
        return { label, found };
      },
      () => null,
    );
  }

  async function nextGrid() {
    const kept = await ahead;
    ahead = null;
    const hasNext = kept && kept.label === wished && kept.found;
    showGrid(hasNext ? kept.found : (await ask("grid", { label: wished })).grid);
    if (grid) prefetch();
    showBulk();
  }

  async function settle(accepts) {
    if (!grid) return;
    const of = (kind) => grid.cells.map(({ cell }) => cell).filter((cell) => marks.get(cell) === kind);
    const body = { cells: grid.cells.map(({ cell }) => cell), marked: of("mark"), left: of("open"), accepts };
    const { marked, rest } = counts();
    const name = facts.classes[grid.label];
    const { count } = await ask("settle", { ...body, ...effort() });
    const [yes, no] = accepts ? [rest, marked] : [marked, rest];
    say(`${counted(count, "answer")} kept for ${name}: ${yes} accepted, ${no} rejected.`);
    await nextGrid();
  }

  async function skipGrid() {
    if (!grid) return;
    await ask("skip-grid", { cells: grid.cells.map(({ cell }) => cell) });
    say("Grid skipped; it comes again at the end.");
    await nextGrid();
  }

  async function chooseClass(label) {
    wished = label;
    ahead = null;
    history.replaceState(null, "", label === null ? "#class" : `#class/${label}`);
    part("class-name").placeholder = label === null ? "the queue decides ( / )" : facts.classes[label];
    await nextGrid();
  }

  async function showBulk() {
    const audit = await ask("audit", { label: wished });
    const text = audit.reason ||
      `The audit shows a precision of at least ${percent(audit.wished)} for proposals from a confidence of ${probability(audit.line)} on: ` +
      (audit.above ? `${number(audit.above)} of them are open${wished === null ? "" : " in this class"}.` : "none of them is open.");
    part("bulk-text").textContent = text;
    const button = part("bulk-button");
    button.hidden = audit.above === 0;
    button.dataset.expected = audit.above;
    button.textContent = `Accept all ${number(audit.above)}`;
  }

  async function acceptAbove() {
    const expected = Number(part("bulk-button").dataset.expected);
    const { count } = await ask("accept-above", { label: wished, expected, ...effort() });
    say(`${counted(count, "label")} above the audited line accepted.`);
    ahead = null;
    await nextGrid();
  }

  // By image, and the audit.

  let image = null;
  let aheadImage = null;
  let visited = [];
  let tilesOf = null; // the row whose tiles are shown

  const chipItems = () => [...part("chips").children];
  const focusedChip = () => document.activeElement?.closest?.(".chip");

  function chipItem(chip) {
    const item = element("li", "chip");
    const name = facts.classes[chip.label];
    item.dataset.label = chip.label;
    item.dataset.state = chip.state;
    const yes = element("button", "yes", "\u2713");
    const no = element("button", "no", "\u2717");
    yes.setAttribute("aria-label", `Accept ${name}`);
    no.setAttribute("aria-label", `Reject ${name}`);
    yes.setAttribute("aria-pressed", String(chip.state === "accepted" || chip.state === "observed"));
    no.setAttribute("aria-pressed", String(chip.state === "rejected"));
    for (const [button, value] of [[yes, 1], [no, -1]]) {
      button.type = "button";
      button.addEventListener("click", () => alone(() => answerChip(chip, value)));
    }
    const state = element("span", "state");
    state.append(element("span", chip.state === "candidate" ? "quiet" : "", `${chip.state} `));
    if (chip.confidence !== undefined) state.append(probability(chip.confidence));
    item.append(yes, element("span", "name", name), state, no);
    return item;
  }

  const isOpen = (chip) => ["proposed", "candidate", "doubted"].includes(chip.state);

  function showImage(found, focus = true) {
    image = found;
    waiting = waiting.filter((key) => key === "u"); // the others were about the image before
    const hasImage = image !== null;
    part("look").hidden = part("image-actions").hidden = !hasImage;
    part("no-image").hidden = hasImage;
    hideTiles();
    if (!hasImage) {
      part("no-image").textContent = mode === "audit"
        ? "No image of the audit is left: all are complete, or somebody else looks at them."
        : "No image is left: all are complete, or somebody else looks at them.";
      return;
    }
    restart();
    part("picture").src = picture(image.row, 1600);
    part("picture").alt = `Image ${image.file}`;
    part("image-title").textContent = image.file + (image.complete ? " (complete)" : "");
    showChips();
    if (focus) focusChip(image.chips.findIndex(isOpen));
  }

  function showChips() {
    part("chips").replaceChildren(...image.chips.map(chipItem));
    part("no-chips").hidden = image.chips.length > 0;
    const open = image.chips.filter((chip) => isOpen(chip) && chip.state !== "doubted").length;
    part("image-effect").textContent = image.complete
      ? "This image is complete."
      : `Complete: nothing else is in the image${open ? `; the ${open} open labels are rejected` : ""}.`;
  }

  function focusChip(place) {
    const items = chipItems();
    if (items.length) items[Math.max(0, Math.min(place, items.length - 1))].querySelector(".yes").focus({ preventScroll: true });
    else document.activeElement?.blur?.();
  }

  async function answer(answers, complete) {
    const body = { mode, row: image.row, answers, ...(complete === undefined ? {} : { complete }), ...effort() };
    const found = await ask("answer", body);
    restart();
    image = found.image;
    return found.count;
  }

  async function answerChip(chip, value) {
    const name = facts.classes[chip.label];
    const isSame = (value === 1 && chip.state === "accepted") || (value === -1 && chip.state === "rejected");
    const place = chipItems().findIndex((item) => Number(item.dataset.label) === chip.label);
    await answer([{ label: chip.label, value: isSame ? 0 : value }]);
    say(isSame ? `${name}: answer taken back.` : `${name} ${value === 1 ? "accepted" : "rejected"}.`);
    showChips();
    const next = image.chips.findIndex(isOpen);
    focusChip(next >= 0 ? next : place);
  }

  async function acceptProposed() {
    const open = image.chips.filter((chip) => chip.state === "proposed");
    if (!open.length) return say("No proposed label is open.");
    await answer(open.map(({ label }) => ({ label, value: 1 })));
    say(`${counted(open.length, "proposed label")} accepted.`);
    showChips();
    focusChip(image.chips.findIndex(isOpen));
  }

  async function complete() {
    if (image.complete) {
      await answer([], false);
      say("Not complete any more.");
      showImage(image);
      return;
    }
    await answer([], true);
    say(`${image.file} is complete.`);
    await nextImage();
    if (mode === "audit") showFigures();
  }

  async function addLabel(label) {
    if (label === undefined || label === null || !image) return focusChip(0);
    await answer([{ label, value: 1 }]);
    say(`${facts.classes[label]} accepted.`);
    showChips();
    part("label-name").focus();
  }

  async function nextImage() {
    if (image) {
      visited = [...visited, image.row].slice(-MOST_HISTORY);
      await ask("leave-image", { row: image.row });
    }
    const kept = await aheadImage;
    aheadImage = null;
    if (kept && kept.mode === mode && kept.found) showImage((await ask("image", { mode, row: kept.found.row })).image);
    else showImage((await ask("image", { mode })).image);
    prefetchImage();
  }

  function prefetchImage() {
    if (!image) return;
    const wanted = mode;
    aheadImage = ask("image", { mode: wanted, ahead: true }).then(
      ({ image: found }) => {
        if (found) new Image().src = picture(found.row, 1600);
        return { mode: wanted, found };
      },
      () => null,
    );
  }

  async function previousImage() {
    const row = visited.pop();
    if (row === undefined) return say("This was the first image.");
    showImage((await ask("image", { mode, row })).image);
  }

  async function showFigures() {
    const audit = await ask("audit", {});
    const interval = (share) => (share ? `${percent(share.low)} to ${percent(share.high)}` : "not known yet");
    const value = (share) => (share ? percent(share.value) : "\u2013");
    const figure = (name, shown, note) => {
      const tile = element("div", "tile");
      tile.append(element("dt", "", name), element("dd", "", shown), element("dd", "note", note));
      return tile;
    };
    part("figures").replaceChildren(
      figure("Audited images", `${audit.answered} of ${audit.drawn}`, "complete so far"),
      figure("Precision of the new labels", value(audit.precision), `90 % interval ${interval(audit.precision)}`),
      figure("Recall of the new labels", value(audit.recall), `90 % interval ${interval(audit.recall)}`),
    );
    part("audit-line").textContent = audit.reason ||
      `Proposals from a confidence of ${probability(audit.line)} on keep a precision of ${percent(audit.wished)}: they can be accepted together, by class.`;
  }

  function hideTiles() {
    tilesOf = null;
    part("tiles").hidden = true;
    part("tiles").replaceChildren();
    part("tiles-note").textContent = "";
  }

  async function toggleTiles() {
    if (tilesOf === image.row) return hideTiles();
    const chip = focusedChip();
    const label = chip ? Number(chip.dataset.label) : null;
    say("Asking the teacher \u2026");
    const row = image.row;
    const { tiles, reason } = await ask("tiles", { row, labels: label === null ? [] : [label] });
    if (image.row !== row) return;
    if (reason) {
      part("tiles-note").textContent = `No tiles: ${reason}.`;
      return say(`No tiles: ${reason}.`);
    }
    tilesOf = row;
    part("tiles").replaceChildren(...tiles.slice(1).map((tile) => {
      const [left, top, right, bottom] = tile.box;
      const item = element("li");
      Object.assign(item.style, {
        left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%`,
      });
      const [best, score] = tile.top[0];
      const own = label === null ? score : tile.scores[label];
      item.style.setProperty("--share", `${Math.round(65 * own)}%`);
      item.append(element("span", "", facts.classes[best]), element("span", "", probability(score)));
      if (label !== null && label !== best) item.append(element("span", "", `${facts.classes[label]} ${probability(own)}`));
      return item;
    }));
    part("tiles").hidden = false;
    const [best, score] = tiles[0].top[0];
    const text = `The teacher saw ${facts.classes[best]} (${probability(score)}) in the whole image; each tile shows its best class.`;
    part("tiles-note").textContent = text;
    say(text);
  }

  // The queue.

  async function showQueue() {
    const minutes = Math.min(Math.max(Number(part("minutes").value) || 30, 1), 10000);
    const plan = await ask("plan", { minutes });
    const fit = (name, unit, { count, labels, seconds }) => {
      const tile = element("div", "tile");
      tile.append(
        element("dt", "", name), element("dd", "", counted(labels, "label")),
        element("dd", "note", `${counted(count, unit)}, about ${duration(seconds)}`),
      );
      return tile;
    };
    part("fits").replaceChildren(
      fit(`${counted(minutes, "minute")} by class`, "grid", plan.by_class), fit(`${counted(minutes, "minute")} by image`, "image", plan.by_image),
    );
    const line = (text, note, go) => {
      const item = element("li");
      const button = element("button", "", "Look");
      button.type = "button";
      button.setAttribute("aria-label", `Look at ${text}`);
      button.addEventListener("click", go);
      item.append(element("strong", "", text), element("span", "muted", ` ${note}`), button);
      return item;
    };
    part("next-grids").replaceChildren(...plan.grids.map((next) =>
      line(facts.classes[next.label], `${counted(next.cells, "image")}: ${next.reason}`, () => { location.hash = `class/${next.label}`; })));
    part("next-images").replaceChildren(...plan.images.map((next) =>
      line(next.file, `${counted(next.labels, "label")}: ${next.reason}`, () => {
        openRow = next.row;
        location.hash = "image";
      })));
  }

  // Modes, undo, keys.

  let openRow = null;

  async function undo() {
    const { undone } = await ask("undo", {});
    if (undone === null) return say("There is nothing to undo.");
    const about = undone.grid ? ` for ${facts.classes[undone.grid.label]}` : "";
    ahead = aheadImage = null;
    if (undone.grid) {
      if (mode !== "class") await enter("class", null, undone);
      else showGrid(undone.grid, undone.marked);
      prefetch();
    } else if (undone.row !== null) {
      const wanted = undone.kind === "audit" ? "audit" : "image";
      if (mode === wanted) showImage((await ask("image", { mode, row: undone.row })).image);
      else await enter(wanted, null, undone);
      if (mode === "audit") showFigures();
    } else if (mode === "class") await nextGrid();
    say(`Undone: ${counted(undone.count, "answer")}${about}.`);
  }

  async function enter(wanted, label, undone) {
    mode = wanted;
    for (const link of document.querySelectorAll("[data-mode]")) {
      if (link.dataset.mode === mode) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    part("class-part").hidden = mode !== "class";
    part("image-part").hidden = mode !== "image" && mode !== "audit";
    part("queue-part").hidden = mode !== "queue";
    part("audit-figures").hidden = mode !== "audit";
    const address = mode === "class" && label !== null ? `#class/${label}` : `#${mode}`;
    if (location.hash !== address) history.replaceState(null, "", address);
    restart();
    if (mode === "class") {
      wished = label;
      part("class-name").placeholder = label === null ? "the queue decides ( / )" : facts.classes[label];
      if (undone) showGrid(undone.grid, undone.marked);
      else {
        ahead = null; // the server knows which grid is the first
        await nextGrid();
      }
    } else if (mode === "queue") await showQueue();
    else {
      image = aheadImage = null;
      visited = [];
      const row = undone?.row ?? openRow;
      openRow = null;
      showImage((await ask("image", row === null ? { mode } : { mode, row })).image);
      prefetchImage();
      if (mode === "audit") await showFigures();
    }
  }

  function go() {
    isLeaving = isBusy;
    if (isBusy) return;
    waiting = waiting.filter((key) => key === "u");
    const [name, place] = location.hash.slice(1).split("/");
    const wanted = MODES.includes(name) ? name : "class";
    const chosen = /^\d+$/.test(place ?? "") ? Number(place) : null;
    if (wanted === "image" && chosen !== null) openRow = chosen;
    alone(() => enter(wanted, wanted === "class" && chosen !== null && chosen < facts.classes.length ? chosen : null));
  }

  function zoom() {
    const row = mode === "class" ? grid?.cells[at]?.row : image?.row;
    if (row === undefined) return;
    part("large").src = picture(row, 1600);
    part("large").alt = mode === "class" ? `Image ${grid.cells[at].file}` : `Image ${image.file}`;
    part("zoom").showModal();
  }

  const ACTIONS = {
    settle: () => settle(grid?.accepts),
    "settle-other": () => settle(!grid?.accepts),
    "accept-above": acceptAbove, skip: skipGrid, undo, complete, "accept-proposed": acceptProposed,
    next: nextImage, previous: previousImage, zoom, tiles: toggleTiles,
  };
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => alone(async () => ACTIONS[button.dataset.do]()));
  }
  part("picture").addEventListener("load", ({ target }) => {
    part("frame").style.setProperty("--ratio", target.naturalWidth / target.naturalHeight);
  });
  function showHelp() {
    part("help").showModal();
    part("help-title").focus();
  }
  part("show-help").addEventListener("click", showHelp);

  function classKey(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns(), Home: -1e6, End: 1e6 };
    const onButton = event.target.closest?.("button:not(.cell), a");
    if (!grid) return false;
    if (event.key in steps) moveTo(at + steps[event.key]);
    else if (event.key === "Enter" && !onButton) alone(() => settle(grid.accepts));
    else if (event.key === " " && !onButton) mark(at, "mark");
    else if (event.key === "x") mark(at, "open");
    else if (event.key === "a") alone(() => settle(true));
    else if (event.key === "r") alone(() => settle(false));
    else if (event.key === "s") alone(skipGrid);
    else return false;
    return true;
  }

  function imageKey(event) {
    if (!image) return false;
    if (isBusy && ["a", "r", "A", "c"].includes(event.key)) return waiting.push(event.key) > 0;
    const chip = focusedChip();
    const items = chipItems();
    const place = items.indexOf(chip);
    const own = chip && image.chips[place];
    if (event.key === "ArrowDown") focusChip(place + 1);
    else if (event.key === "ArrowUp") focusChip(place - 1);
    else if (event.key === "a" && own) alone(() => answerChip(own, 1));
    else if (event.key === "r" && own) alone(() => answerChip(own, -1));
    else if (event.key === "A") alone(acceptProposed);
    else if (event.key === "c") alone(complete);
    else if (["n", "s", "ArrowRight"].includes(event.key)) alone(nextImage);
    else if (["p", "ArrowLeft"].includes(event.key)) alone(previousImage);
    else if (event.key === "t") alone(toggleTiles);
    else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    keys += event.key === "Shift" ? 0 : 1;
    if (event.target.matches?.("input") || document.querySelector("dialog[open]")) return;
    const onImage = mode === "image" || mode === "audit";
    let isDone = true;
    if (event.key === "?") showHelp();
    else if (event.key === "u" && isBusy) waiting.push("u");
    else if (event.key === "u") alone(undo);
    else if (event.key === "z") zoom();
    else if (event.key === "/") part(onImage ? "label-name" : "class-name").focus();
    else if (/^[1-4]$/.test(event.key)) location.hash = MODES[Number(event.key) - 1];
    else isDone = mode === "class" ? classKey(event) : onImage ? imageKey(event) : false;
    if (isDone) event.preventDefault();
  });
  document.addEventListener("pointerdown", () => (keys += 1));

  chooser(part("class-name"), part("class-list"), (label) => {
    if (label === undefined) moveTo(at);
    else alone(() => chooseClass(label));
  });
  chooser(part("label-name"), part("label-list"), (label) => alone(async () => addLabel(label)));
  part("minutes").addEventListener("change", () => alone(showQueue));
  part("who").value = localStorage.getItem("name") || facts.name;
  part("who").addEventListener("change", () => {
    localStorage.setItem("name", part("who").value.trim());
    go();
  });
  window.addEventListener("hashchange", go);
  if (facts.start && !location.hash) history.replaceState(null, "", `#${facts.start}`);
  go();
})();
