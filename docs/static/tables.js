// Tables of measurements are sorted by the column whose header is pressed, and show the rows that hold what is typed.

/** What a cell is sorted by: its first number; text as it is, and so a number in brackets, which has another unit. */
function keyOf(cell) {
  const text = cell.textContent.trim().replaceAll("−", "-");
  const number = text.replace(/(\d),(?=\d{3})/g, "$1").match(/^[<>≤≥≈]*\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)/);
  return number ? Number(number[1]) : text;
}

/** Numbers before texts, whichever way: "limit" is neither more nor less. */
function compare(a, b, sign) {
  const numbers = [typeof a === "number", typeof b === "number"];
  if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
  return sign * (numbers[0] ? a - b : a.localeCompare(b));
}

function sortable(table) {
  const body = table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const words = header.textContent.trim();
    if (!words) return;
    const button = document.createElement("button");
    button.append(...header.querySelector("p")?.childNodes ?? header.childNodes);
    button.title = "sort by this column";
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const sign = header.ariaSort === "ascending" ? -1 : 1;
      for (const each of headers) each.ariaSort = null;
      header.ariaSort = sign > 0 ? "ascending" : "descending";
      const rows = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
      rows.sort(([a], [b]) => compare(a, b, sign)); // stable: equal rows stay as they were
      body.append(...rows.map(([, row]) => row));
    });
  });
}

function filtered(table) {
  const field = document.createElement("input");
  Object.assign(field, {type: "search", className: "rows-with", placeholder: "rows with …", ariaLabel: "rows with"});
  field.addEventListener("input", () => {
    const asked = field.value.trim().toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(asked);
  });
  (table.closest(".pst-scrollable-table-container") ?? table).before(field);
}

const FEW = 3, MANY = 6, SHORT = 18, LONG = 70;
const measured = /\/(benchmarks\/[^/]*|gpytorch_models\.html)$/.test(location.pathname);
for (const table of measured ? document.querySelectorAll("article table") : []) {
  const rows = table.tBodies[0]?.rows.length ?? 0;
  if (!table.tHead || rows < FEW) continue;
  table.classList.add("measured");
  for (const cell of table.querySelectorAll("td")) {
    cell.classList.toggle("short", cell.textContent.length < SHORT);
    cell.classList.toggle("long", cell.textContent.length > LONG);
  }
  sortable(table);
  if (rows >= MANY) filtered(table);
}
