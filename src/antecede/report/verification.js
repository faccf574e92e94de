// Draws the charts. All their data are in the page; the script fetches nothing.
const { config, charts } = JSON.parse(document.getElementById("charts-data").textContent);
const embedOptions = {
  mode: "vega-lite",
  renderer: "svg",
  actions: false,
  config,
  logLevel: 1,
  tooltip: { disableDefaultStyle: true },
};
for (const element of document.querySelectorAll("[data-chart]")) {
  await window.vegaEmbed(element, charts[element.dataset.chart], embedOptions);
  element.dataset.drawn = "yes";
}
document.documentElement.dataset.ready = "yes";
