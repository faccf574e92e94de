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
