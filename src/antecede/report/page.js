// Draws the charts, and lets the reader pick protocols, change axes and sort tables.
// The charts' data are in the page; nothing is ever fetched.
const { config, charts } = JSON.parse(document.getElementById("charts-data").textContent);
const views = new Map();
const picker = document.querySelector(".picker");
const boxes = [...document.querySelectorAll("input[name=protocol]")];
const picked = () => boxes.filter((box) => box.checked).map((box) => box.value);

function adapted(spec, logX, logY) {
  const copy = structuredClone(spec);
  for (const param of copy.params) {
    if (param.name === "shown") param.value = picked();
    if (param.name === "log_x") param.value = logX;
    if (param.name === "log_y") param.value = logY;
  }
  const right = copy.encoding.x.scale;
  right.type = logX ? "log" : "linear";
  delete right.zero;
  if (!logX) right.zero = false;
  for (const layer of copy.layer) {
    layer.encoding.y.scale = logY
      ? { type: "log", nice: false, padding: 10 }
      : { type: "linear", nice: true, zero: true };
  }
  return copy;
}

async function draw(place) {
  const figure = place.closest("figure");
  const logX = figure.querySelector(".log-x").checked;
  const logY = figure.querySelector(".log-y").checked;
  views.get(place)?.finalize();
  const result = await window.vegaEmbed(place, adapted(charts[place.dataset.chart], logX, logY), {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    config,
    logLevel: 1, // Errors: that nothing is picked is no reason to warn.
    tooltip: { disableDefaultStyle: true },
  });
  views.set(place, result);
  place.dataset.drawn = "yes";
}

// What is behind a closed word has no width yet, and is drawn when it is opened.
const places = [...document.querySelectorAll(".chart")];
const hidden = (place) => place.closest("details:not([open])") !== null;
for (const details of document.querySelectorAll("details.more")) {
  details.addEventListener("toggle", async () => {
    for (const place of details.querySelectorAll(".chart:not([data-drawn])")) await draw(place);
  });
}
for (const figure of document.querySelectorAll(".chart-figure")) {
  figure.querySelector(".chart-tools").hidden = false;
  for (const box of figure.querySelectorAll(".log-x, .log-y")) {
    box.addEventListener("change", () => figure.querySelectorAll(".chart").forEach(draw));
  }
}

async function pick() {
  const names = picked();
  await Promise.all([...views.values()].map(({ view }) => view.signal("shown", names).runAsync()));
}
picker.hidden = false;
boxes.forEach((box) => box.addEventListener("change", pick));
for (const button of picker.querySelectorAll("[data-pick]")) {
  button.addEventListener("click", () => {
    boxes.forEach((box) => { box.checked = button.dataset.pick === "all"; });
    pick();
  });
}

// Tables: a click on a heading sorts by it, another one the other way round.
const value = (cell) => {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number(text.replaceAll(",", ""));
  return text !== "" && !Number.isNaN(number) ? number : text;
};
function compare(a, b) {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [value(row.cells[column]), row]);
      rows.sort(([a], [b]) => (up ? compare(a, b) : compare(b, a)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}

// The page may travel without the files beside it, so it can write its tables itself.
for (const table of document.querySelectorAll("table.data")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "save";
  button.textContent = "save as CSV";
  button.addEventListener("click", () => {
    const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [...table.rows].map((row) =>
      [...row.cells].map((cell) => quote(cell.dataset.value ?? cell.textContent.trim())).join(","),
    );
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    link.download = `${table.dataset.file}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  table.caption.append(" ", button);
}

for (const place of places) if (!hidden(place)) await draw(place);
document.documentElement.dataset.ready = "yes";
