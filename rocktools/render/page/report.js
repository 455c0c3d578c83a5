"use strict";
// Each table: all rows stand in a JSON block beside it; a page of them is in the document at any time.
(() => {
  const PAGE_ROWS = 40;

  function compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function enhance(box) {
    const data = JSON.parse(box.querySelector("script[type='application/json']").textContent);
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const headers = [...table.tHead.rows[0].cells];
    const tools = box.querySelector(".tools");
    const [input, count, pages] = ["input", ".count", ".pages"].map((name) => tools.querySelector(name));
    const haystacks = data.rows.map((row) => row.join("\u0000").toLowerCase());
    const state = { column: -1, ascending: true, page: 0, order: data.rows.map((_, place) => place) };

    function cell(row, column, place) {
      const made = document.createElement(column === 0 ? "th" : "td");
      if (column === 0) made.scope = "row";
      made.className = data.styles[column];
      const href = column === 0 ? data.links[place] : undefined;
      if (href) {
        const link = document.createElement("a");
        link.href = "#" + href;
        link.textContent = row[column];
        made.append(link);
      } else {
        made.textContent = row[column];
      }
      return made;
    }

    function draw() {
      const first = state.page * PAGE_ROWS;
      const shown = state.order.slice(first, first + PAGE_ROWS);
      body.replaceChildren(...shown.map((place) => {
        const line = document.createElement("tr");
        line.append(...data.rows[place].map((_, column) => cell(data.rows[place], column, place)));
        return line;
      }));
      const total = data.rows.length;
      const found = state.order.length;
      const cut = data.cut ? ` (${data.cut.toLocaleString("en")} more were left out of the file)` : "";
      const of = found === total ? "" : ` of ${total.toLocaleString("en")}`;
      const range = found > PAGE_ROWS ? `${first + 1} to ${first + shown.length} of ` : "";
      count.textContent = `${range}${found.toLocaleString("en")}${of} rows${cut}`;
      pages.hidden = found <= PAGE_ROWS;
      pages.querySelector(".previous").disabled = state.page === 0;
      pages.querySelector(".next").disabled = first + PAGE_ROWS >= found;
      headers.forEach((header, column) => {
        if (column === state.column) header.setAttribute("aria-sort", state.ascending ? "ascending" : "descending");
        else header.removeAttribute("aria-sort");
      });
    }

    function select() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      state.order = data.rows.map((_, place) => place)
        .filter((place) => words.every((word) => haystacks[place].includes(word)));
      if (state.column >= 0) {
        const keys = data.keys[state.column] || data.rows.map((row) => row[state.column]);
        const sign = state.ascending ? 1 : -1;
        // What is missing stays at the end in either direction.
        state.order.sort((a, b) => keys[a] === null || keys[b] === null
          ? compare(keys[a], keys[b]) || a - b
          : sign * compare(keys[a], keys[b]) || a - b);
      }
      state.page = 0;
      draw();
    }

    headers.forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      button.title = header.title;
      header.replaceChildren(button);
      button.addEventListener("click", () => {
        const again = state.column === column;
        state.ascending = again ? !state.ascending : data.styles[column] !== "number";
        state.column = column;
        select();
      });
    });
    input.addEventListener("input", select);
    pages.querySelector(".previous").addEventListener("click", () => { state.page -= 1; draw(); });
    pages.querySelector(".next").addEventListener("click", () => { state.page += 1; draw(); });
    tools.hidden = data.rows.length < 8;
    draw();
  }

  document.querySelectorAll("div.table").forEach(enhance);

  // A link to something that is folded away unfolds it.
  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  }
  addEventListener("hashchange", unfold);
  unfold();
})();
