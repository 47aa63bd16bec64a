// The theme's search is a dialog without a name, which readers of screens need.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");

// Code and tables that are wider than the page scroll: the keyboard must reach them.
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
