// Keyboard and small chores of the shell. Keys are declared in the markup, so a page only has to set an attribute:
//   data-key="n"          a press of N clicks this element; "mod+enter" means Ctrl or Command with Enter
//   data-go="t"           G then T clicks this link
//   data-search           "/" focuses the input inside
//   data-mod="modK"       shown as ⌘K on macOS, Ctrl K elsewhere
(() => {
  const mac = /Mac|iPhone|iPad/.test(navigator.platform);
  const visible = (element) => element.getClientRects().length > 0 && !element.closest("[inert]");
  const find = (selector) => [...document.querySelectorAll(selector)].filter(visible).pop();
  const typing = (target) =>
    target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) || target.closest(".cm-editor");
  let going = 0;

  const press = (event, selector) => {
    const element = find(selector);
    if (!element || element.disabled) return;
    event.preventDefault();
    element.click();
  };

  // The palette opens by way of the server: what is typed until then is kept for it, and is no shortcut meanwhile.
  let awaited = 0;
  let early = "";
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      if (Date.now() - awaited > 3000 || event.target.matches(".pal input")) return;
      if (event.key === "Escape") awaited = 0;
      else if (event.key.length === 1) early += event.key;
      else if (event.key === "Enter") early += "\n";
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );
  document.addEventListener("focusin", (event) => {
    if (!event.target.matches(".pal input")) return;
    awaited = 0;
    const [text, enter] = [early.replaceAll("\n", ""), early.endsWith("\n")];
    early = "";
    if (text) document.execCommand("insertText", false, text);
    const input = event.target; // the text is on its way to the server first, and the dialog wholly open
    if (enter) setTimeout(() => input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true })), 250);
  });

  // Modified keys are caught on the way down: a code editor would take Ctrl Enter for itself.
  document.addEventListener(
    "keydown",
    (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.isComposing) return;
      const selector = `[data-key="mod+${event.key.toLowerCase()}"]`;
      if (!/^(s|k|enter)$/i.test(event.key) || !find(selector)) return;
      event.stopPropagation();
      if (event.key.toLowerCase() === "k") [awaited, early] = [Date.now(), ""];
      press(event, selector);
    },
    true,
  );

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
    const key = event.key.toLowerCase();
    if (typing(event.target) || document.querySelector(".q-dialog__inner, .q-menu")) return;
    if (Date.now() - going < 1200) {
      going = 0;
      press(event, `[data-go="${CSS.escape(key)}"]`);
    } else if (key === "g") {
      going = Date.now();
    } else if (key === "/") {
      const box = find("[data-search] input, input[data-search]");
      if (!box) return press(event, '[data-key="/"]');
      event.preventDefault();
      box.focus();
      box.select();
    } else if (key.length === 1 || key === "escape" || key === "delete") {
      press(event, `[data-key="${CSS.escape(key)}"]`);
    }
  });

  const name = (root) => {
    if (root.id === "q-loading-bar") root.setAttribute("aria-hidden", "true"); // it has no name, and nothing waits for it
    if (!mac) return;
    for (const element of root.querySelectorAll?.("[data-mod]") ?? []) {
      const shown = element.dataset.mod.replace("mod", "⌘");
      if (element.textContent !== shown) element.textContent = shown;
    }
  };
  new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach(name))).observe(
    document.documentElement, { childList: true, subtree: true },
  );

  // Put Markdown marks around the selection of a text box, keeping the browser's own undo.
  window.rlvrWrap = (id, before, after, each) => {
    const box = document.querySelector(`#c${id} textarea`);
    if (!box) return;
    box.focus();
    const picked = box.value.slice(box.selectionStart, box.selectionEnd);
    const text = each ? (picked || "").split("\n").map((line) => before + line).join("\n") : before + picked + after;
    document.execCommand("insertText", false, text);
  };
})();

// Arrow keys move inside a radio group and pick, as native radio buttons do.
document.addEventListener("keydown", (event) => {
  const group = event.target.closest?.('[role="radiogroup"]');
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!group || !step || !event.target.matches('[role="radio"]')) return;
  event.preventDefault();
  const all = [...group.querySelectorAll('[role="radio"]')];
  const next = all[(all.indexOf(event.target) + step + all.length) % all.length];
  next.focus();
  next.click();
});

// Tell the page whether it is dark, at the start and on every change: code editors and charts are told, not styled.
// The side that was picked is kept for the pages beside the studio (api-docs.js); none is while it follows the system.
document.addEventListener("DOMContentLoaded", () => {
  let told = null;
  const keep = (mode) =>
    typeof mode === "boolean" ? localStorage.setItem("rlvr-dark", mode) : localStorage.removeItem("rlvr-dark");
  const tell = () => {
    const dark = document.body.classList.contains("body--dark");
    if (dark === told || !window.did_handshake) return;
    told = dark;
    emitEvent("rlvr_theme", dark);
    keep(window.Quasar?.Dark.mode);
  };
  new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  const waiting = setInterval(() => {
    tell();
    if (told !== null) clearInterval(waiting);
  }, 100);
});

// Quasar draws a few icons of its own: let them come from our sprite too.
document.addEventListener("DOMContentLoaded", () => {
  const icon = (name) => `svguse:/assets/icons/icons.svg#${name}|0 0 24 24`;
  const set = window.Quasar?.IconSet?.props;
  if (!set) return;
  Object.assign(set.chip, { remove: icon("x"), selected: icon("check") });
  Object.assign(set.arrow, { dropdown: icon("chevrons-up-down") });
  Object.assign(set.field, { clear: icon("x"), error: icon("circle-alert") });
});

// A paste that does not fit one message to the server would be lost on the way: refuse it here, and say so.
document.addEventListener(
  "paste",
  (event) => {
    const text = event.clipboardData?.getData("text") ?? "";
    const there = typeof event.target.value === "string" ? event.target.value : "";
    if ((text.length + there.length) * 3 < 900_000) return;
    const bytes = new TextEncoder().encode(text + there).length;
    if (bytes < 900_000) return;
    event.preventDefault();
    event.stopPropagation();
    emitEvent("rlvr_too_large", bytes);
  },
  true,
);
