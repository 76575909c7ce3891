for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[head.cellIndex], number = cell.dataset.sort;
      return number === undefined ? cell.textContent : Number(number);
    };
    const rank = (a, b) => {
      // Cells without a number stay last, whichever way.
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      return (down ? -1 : 1) * (typeof a === "number" ? a - b : a.localeCompare(b));
    };
    const rows = [...body.rows].sort((a, b) => rank(key(a), key(b)));
    for (const row of rows) row.classList.remove("next");
    body.append(...rows);
  });
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected";
    }
  });
}
