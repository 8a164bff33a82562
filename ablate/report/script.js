"use strict";
(() => {
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const text = (cell) => (cell ? cell.textContent.trim() : "");

  // a value with its interval, 1,200, (3.1 …) × 10⁻⁵, −0.3 as numbers; NaN for words and –
  const raised = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const number = (words) => {
    const plain = words.replaceAll(",", "").replaceAll("−", "-").replace(/\s*\u00b1[^)]*/, "");
    const digits = plain.replace("⁻", "-").replace(/[⁰¹²³⁴-⁹]/g, (digit) => raised.indexOf(digit));
    const shown = digits.replace(/\s*×\s*10/, "e").replace(/[()\s]/g, "");
    return shown === "" || shown === "–" ? NaN : Number(shown);
  };

  // one row a trial: the table that sorting, hints and pins read
  const table = document.querySelector("details .trials table");
  const heads = table ? all("thead th", table) : [];
  const rows = new Map();
  if (table) for (const row of all("tbody tr", table)) rows.set(text(row.cells[0]), row);
  const constant = (column) => heads[column].classList.contains("k");
  const objective = heads.findIndex((head) => /[↓↑]/.test(head.textContent));

  const columns = () => heads.map((_, column) => column);
  const says = (trial, column) => text(rows.get(trial)?.cells[column]);
  const picture = (trial) => document.querySelector(`img[data-trial="${trial}"]`);

  const light = (trial, on) => {
    for (const dot of all(`use[data-trial="${trial}"]`)) dot.classList.toggle("lit", on);
    rows.get(trial)?.classList.toggle("lit", on);
  };

  // hints beside the dots of figures
  const hint = make("div", { className: "hint", hidden: true });
  hint.setAttribute("role", "tooltip");
  document.body.append(hint);
  const describe = (trial) => {
    hint.replaceChildren(make("b", { textContent: `trial ${trial}` }));
    for (const column of columns().slice(1)) {
      const value = says(trial, column);
      if (constant(column) || !value || value === "–" || (objective >= 0 && column > objective)) continue;
      hint.append(make("br"), `${text(heads[column])}: ${value}`);
    }
    const shown = picture(trial);
    if (shown) hint.append(make("img", { src: shown.src, alt: "" }));
  };
  const place = (box) => {
    hint.hidden = false;
    const left = Math.min(box.right + 10, document.documentElement.clientWidth - hint.offsetWidth - 8);
    const above = box.bottom + hint.offsetHeight + 10 > innerHeight;
    const top = above ? Math.max(box.top - hint.offsetHeight - 8, 4) : box.bottom + 8;
    hint.style.left = `${Math.max(left, 8) + scrollX}px`;
    hint.style.top = `${top + scrollY}px`;
  };

  // two configurations side by side
  let pinned = [];
  const panel = make("section", { className: "pinned", hidden: true });
  panel.setAttribute("aria-label", "Pinned configurations");
  panel.setAttribute("aria-live", "polite");
  panel.tabIndex = 0; // it scrolls
  document.body.append(panel);
  const cells = (words, tag = "td") => words.map((word) => make(tag, { textContent: word }));
  const show = () => {
    for (const [trial, row] of rows) {
      const button = row.querySelector("button");
      button.setAttribute("aria-pressed", String(pinned.includes(trial)));
      button.textContent = pinned.includes(trial) ? "unpin" : "pin";
    }
    panel.hidden = pinned.length === 0;
    const close = make("button", { type: "button", textContent: "close" });
    close.onclick = () => pin(null);
    const what = pinned.length < 2 ? "Pin a second one to compare." : "Only what differs.";
    const head = make("tr", {}, make("td"), ...cells(pinned.map((trial) => `trial ${trial}`), "th"));
    const body = make("tbody");
    for (const column of columns().slice(1)) {
      const values = pinned.map((trial) => says(trial, column));
      if (values.every((value) => value === values[0]) && (pinned.length > 1 || constant(column))) continue;
      const name = make("th", { textContent: text(heads[column]), scope: "row" });
      body.append(make("tr", {}, name, ...cells(values)));
    }
    const shown = pinned.map(picture);
    if (shown.some(Boolean)) {
      const images = shown.map((each) => make("td", {}, ...(each ? [make("img", { src: each.src, alt: each.alt })] : [])));
      body.append(make("tr", {}, make("th", { textContent: "samples", scope: "row" }), ...images));
    }
    panel.replaceChildren(
      make("p", {}, make("span", { textContent: what }), close),
      make("table", {}, make("thead", {}, head), body),
    );
  };
  const pin = (trial) => {
    if (trial === null) pinned = [];
    else if (pinned.includes(trial)) pinned = pinned.filter((each) => each !== trial);
    else pinned = [...pinned.slice(-1), trial];
    show();
  };

  for (const dot of all("use[data-trial]")) {
    const trial = dot.dataset.trial;
    if (!rows.has(trial)) continue;
    dot.addEventListener("pointerenter", () => {
      light(trial, true);
      describe(trial);
      place(dot.getBoundingClientRect());
    });
    dot.addEventListener("pointerleave", () => {
      light(trial, false);
      hint.hidden = true;
    });
    dot.addEventListener("click", () => pin(trial));
  }
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    hint.hidden = true;
    pin(null);
  });

  // sort, filter, hide: without a script the table stands as it is
  const sort = (column) => {
    const up = heads[column].getAttribute("aria-sort") !== "ascending";
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = [...rows.values()].map((row) => [number(text(row.cells[column])), text(row.cells[column]), row]);
    keyed.sort(([a, left], [b, right]) => {
      if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1; // no value: last
      const order = Number.isNaN(a) ? left.localeCompare(right, "en") : a - b;
      return up ? order : -order;
    });
    table.tBodies[0].append(...keyed.map(([, , row]) => row));
  };
  const filter = (words, count) => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of rows.values()) {
      const found = wanted.every((word) => row.textContent.toLowerCase().includes(word));
      row.hidden = !found;
      left += Number(found);
    }
    count.textContent = `${left} of ${rows.size} trials`;
  };
  if (table) {
    heads.forEach((head, column) => {
      const button = make("button", { type: "button" }, ...head.childNodes);
      button.onclick = () => sort(column);
      head.replaceChildren(button);
    });
    for (const [trial, row] of rows) {
      const button = make("button", { type: "button", textContent: "pin" });
      button.setAttribute("aria-label", `pin trial ${trial}`);
      button.onclick = () => pin(trial);
      row.cells[0].append(" ", button);
      for (const [enter, on] of [["pointerenter", true], ["pointerleave", false], ["focusin", true], ["focusout", false]])
        row.addEventListener(enter, () => light(trial, on));
    }
    const count = make("span");
    count.setAttribute("role", "status");
    const search = make("input", { type: "search", placeholder: "filter: complete class-gaussian" });
    search.setAttribute("aria-label", "Show only trials with these words");
    search.oninput = () => filter(search.value, count);
    const whole = make("input", { type: "checkbox" });
    whole.onchange = () => table.classList.toggle("tight", !whole.checked);
    table.classList.add("tight");
    const hides = heads.some((head) => head.classList.contains("k"));
    const label = make("label", { hidden: !hides }, whole, " columns with one value, too");
    const advice = make("span", { className: "note", textContent: "Click a head to sort, pin two trials to compare." });
    table.closest("figure").prepend(make("div", { className: "tools" }, search, label, count, advice));
    filter("", count);
  }
})();
