// The theme's search dialog has no name, but screen readers need one.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");

// Each landmark needs a unique name. Sections with a page have an empty label, and the
// buttons of each code block form a landmark.
document.querySelectorAll(".md-nav[aria-labelledby]").forEach((nav) => {
  const label = document.getElementById(nav.getAttribute("aria-labelledby"));
  const title = nav.querySelector(":scope > .md-nav__title")?.textContent.trim();
  if (!label || label.textContent.trim() || !title) return;
  nav.removeAttribute("aria-labelledby");
  nav.setAttribute("aria-label", title);
});
addEventListener("load", () => {
  document
    .querySelectorAll(".md-code__nav")
    .forEach((nav, n) => nav.setAttribute("aria-label", `Code block ${n + 1}`));
});

// Code and tables that are wider than the page scroll: make them reachable by keyboard.
const reachable = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth;
    if (scrolls) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
addEventListener("load", () => {
  document
    .querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap")
    .forEach((scroller) => reachable.observe(scroller));
});

// Filter the table of kernels by text, and by how a backend runs a kernel.
function addFilter(table) {
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const rows = [...table.tBodies[0].rows];
  const states = ["implemented", "decomposed", "host", "missing"];
  const backends = heads.filter((head, column) =>
    rows.some((row) => row.cells[column].textContent.trim() === "implemented"),
  );
  const form = document.createElement("form");
  form.className = "filter";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Kernels");
  const add = (name, field) => {
    const label = document.createElement("label");
    label.append(`${name} `, field);
    form.append(label);
    return field;
  };
  const choice = (first, names) => {
    const select = document.createElement("select");
    select.append(...[first, ...names].map((name) => new Option(name)));
    return select;
  };
  const text = add("Name", document.createElement("input"));
  text.type = "search";
  const backend = add("Backend", choice("any", backends));
  const state = add("State", choice("any", states));
  const count = document.createElement("output");
  form.append(count);

  const update = () => {
    const words = text.value.toLowerCase().split(/\s+/);
    const columns = backend.selectedIndex ? [backend.value] : backends;
    let shown = 0;
    for (const row of rows) {
      const cells = [...row.cells].map((cell) => cell.textContent.trim());
      const has = (column) => cells[heads.indexOf(column)] === state.value;
      const names = `${cells[0]} ${cells[1]}`.toLowerCase();
      const matches = words.every((word) => names.includes(word));
      row.hidden = !matches || (state.selectedIndex > 0 && !columns.some(has));
      // With a backend and no state, show the kernels that the backend can run.
      if (matches && backend.selectedIndex && !state.selectedIndex)
        row.hidden = cells[heads.indexOf(backend.value)] === "missing";
      if (!row.hidden) shown += 1;
    }
    count.textContent = `${shown} of ${rows.length} kernels`;
  };
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  (table.closest(".md-typeset__scrollwrap") ?? table).before(form);
  update();
}
addEventListener("load", () => {
  for (const table of document.querySelectorAll(".md-typeset table"))
    if (table.tHead?.rows[0]?.cells[0].textContent.trim() === "kernel" &&
        table.tHead.rows[0].textContent.includes("decomposes")) addFilter(table);
});
