// Draws the charts, filters them by protocol, and changes their axes.
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

for (const element of document.querySelectorAll(".cost-chart")) {
  await window.vegaEmbed(element, costs[element.dataset.chart], embedOptions);
  element.dataset.drawn = "yes";
}
for (const element of elements) if (!hidden(element)) await draw(element);
document.documentElement.dataset.ready = "yes";
