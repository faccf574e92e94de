// Draws the charts, filters them by protocol, changes their axes, and sorts tables.
// All data of the charts are in the page; the script fetches nothing.
const { config, charts, costs } = JSON.parse(document.getElementById("charts-data").textContent);
const views = new Map();
const picker = document.querySelector(".picker");
const boxes = [...document.querySelectorAll("input[name=protocol]")];
const picked = () => boxes.filter((box) => box.checked).map((box) => box.value);
const embedOptions = {
  mode: "vega-lite",
  renderer: "svg",
  actions: false,
  config,
  logLevel: 1, // Errors only: Vega warns about a chart in which no protocol is picked.
  tooltip: { disableDefaultStyle: true },
};

function withAxes(spec, logX, logY) {
  const copy = structuredClone(spec);
  for (const param of copy.params) {
    if (param.name === "shown") param.value = picked();
    if (param.name === "log_x") param.value = logX;
    if (param.name === "log_y") param.value = logY;
  }
  const scale = copy.encoding.x.scale;
  scale.type = logX ? "log" : "linear";
  delete scale.zero;
  if (!logX) scale.zero = false;
  for (const layer of copy.layer) {
    layer.encoding.y.scale = logY
      ? { type: "log", nice: false, padding: 10 }
      : { type: "linear", nice: true, zero: true };
  }
  return copy;
}

async function draw(element) {
  const figure = element.closest("figure");
  const logX = figure.querySelector(".log-x").checked;
  const logY = figure.querySelector(".log-y").checked;
  views.get(element)?.finalize();
  const spec = withAxes(charts[element.dataset.chart], logX, logY);
  views.set(element, await window.vegaEmbed(element, spec, embedOptions));
  element.dataset.drawn = "yes";
}

// A chart in a closed details element has no width, so it is drawn when that is opened.
const elements = [...document.querySelectorAll(".chart")];
const hidden = (element) => element.closest("details:not([open])") !== null;
for (const details of document.querySelectorAll("details.more")) {
  details.addEventListener("toggle", async () => {
    for (const element of details.querySelectorAll(".chart:not([data-drawn])")) await draw(element);
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

// A click on a heading sorts the table by its column; a second click reverses the order.
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

// A button saves a table as CSV, because a copy of the page may lack the files beside it.
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

for (const element of document.querySelectorAll(".cost-chart")) {
  await window.vegaEmbed(element, costs[element.dataset.chart], embedOptions);
  element.dataset.drawn = "yes";
}
for (const element of elements) if (!hidden(element)) await draw(element);
document.documentElement.dataset.ready = "yes";
