// Keys of a table whose rows each have one link with data-row, inside an element with data-rows:
//   J K, arrows     move; Home, End to the ends; Enter opens, as links do; arrow down leaves the search box
//   X, Shift X      pick the row, or all between it and the last one picked; so does Shift with a click
//   C               certify the row, where no button of the page takes the key
// It tells the page with the events rows-pick {ids, on} and rows-act {act, id} on the element with data-rows.
(() => {
  const frame = () => [...document.querySelectorAll("[data-rows]")].find((one) => one.getClientRects().length);
  const links = (root) => [...root.querySelectorAll("[data-row]")];
  const tell = (root, name, detail) => root.dispatchEvent(new CustomEvent(name, { detail }));
  const isOn = (row) => row.querySelector('[role="checkbox"]')?.getAttribute("aria-checked") === "true";
  let last = null;

  const here = (root, pointer) => {
    const row = document.activeElement?.closest("tr");
    const at = row && root.contains(row) ? row : pointer ? root.querySelector("tbody tr:hover") : null;
    return at?.querySelector("[data-row]") ?? null;
  };

  const pick = (root, link, range) => {
    const all = links(root);
    const to = all.indexOf(link);
    const from = range ? all.findIndex((one) => one.dataset.row === last) : -1;
    const some = from < 0 ? [link] : all.slice(Math.min(from, to), Math.max(from, to) + 1);
    tell(root, "rows-pick", { ids: some.map((one) => one.dataset.row), on: from >= 0 || !isOn(link.closest("tr")) });
    last = link.dataset.row;
  };

  const move = (root, key) => {
    const all = links(root);
    const at = all.indexOf(here(root, false));
    const to = { home: 0, end: all.length - 1 }[key] ?? at + ({ j: 1, arrowdown: 1, k: -1, arrowup: -1 })[key];
    const link = all[Math.max(0, Math.min(all.length - 1, to))];
    link?.focus();
    link?.closest("tr").scrollIntoView({ block: "nearest" });
  };

  document.addEventListener("keydown", (event) => {
    const root = frame();
    if (!root || event.defaultPrevented || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
    if (document.querySelector(".q-dialog__inner, .q-menu")) return;
    const key = event.key.toLowerCase();
    if (event.target.closest("[data-search]")) {
      if (key === "escape") event.target.blur();
      if (key !== "arrowdown") return;
      event.preventDefault();
      links(root)[0]?.focus();
      return;
    }
    if (event.target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const inside = root.contains(event.target);
    const link = here(root, true);
    if (key === "j" || key === "k" || (inside && /^(arrow(up|down)|home|end)$/.test(key))) move(root, key);
    else if (key === "x" && link) pick(root, link, event.shiftKey);
    else if (key === "c" && link && ![...document.querySelectorAll('[data-key="c"]')].some((one) => one.getClientRects().length))
      tell(root, "rows-act", { act: "certify", id: link.dataset.row });
    else return;
    event.preventDefault();
  });

  // The table is drawn anew with every answer of the server: what had the focus gets it again.
  let held = null;
  document.addEventListener("focusin", ({ target }) => {
    if (target.closest('[id^="q-portal"]')) return; // a dialog or a menu gives the focus back to what opened it
    held = null;
    if (!target.closest("[data-rows]")) return;
    const part = ["[data-row]", ".more", ".sort", '[role="checkbox"]'].find((one) => target.matches(one));
    if (part) held = { element: target, part, row: target.closest("tr").querySelector("[data-row]")?.dataset.row, text: target.textContent };
  });
  document.addEventListener("focusout", () => queueMicrotask(() => {
    if (held?.element.isConnected && document.activeElement === document.body && !document.querySelector(".q-dialog__inner")) held = null;
  }));
  new MutationObserver(() => {
    if (!held || held.element.isConnected || document.activeElement !== document.body) return;
    const root = frame();
    const row = held.row === undefined ? root?.querySelector("thead") : root && links(root).find((one) => one.dataset.row === held.row)?.closest("tr");
    const all = [...(row?.querySelectorAll(held.part) ?? [])];
    (all.find((one) => one.textContent === held.text) ?? all[0])?.focus({ preventScroll: true });
  }).observe(document.documentElement, { childList: true, subtree: true });

  document.addEventListener(
    "click",
    (event) => {
      const row = event.target.closest?.("[data-rows] tbody tr");
      const link = event.target.closest(".q-checkbox") && row?.querySelector("[data-row]");
      if (!link) return;
      if (event.shiftKey && last !== null) {
        event.stopPropagation();
        event.preventDefault();
        pick(row.closest("[data-rows]"), link, true);
      }
      last = link.dataset.row;
    },
    true,
  );
})();
