// What the task editor needs of the browser: jumping to a field, focus that survives a redraw, files from the desktop.
(() => {
  const FIELDS = 'input:not([type="hidden"]):not([type="file"]), textarea, .cm-content';
  const SETTLED_MS = 40;
  const shown = (element) => element.getClientRects().length > 0;

  // A menu that closes gives the focus back to the button that opened it, sooner or later: ours has the last word.
  const take = (element, tries = 8) => {
    const now = document.activeElement;
    if (!element?.isConnected || (now !== document.body && !now.matches("[aria-haspopup]") && tries < 8)) return;
    element.focus();
    if (tries > 0) setTimeout(() => take(element, tries - 1), 60);
  };

  // Bring a field into view, unfold its block, and put the cursor into it. A code editor may take a moment to be there.
  window.rlvrReveal = (id) => {
    const folded = document.getElementById(`c${id}`)?.closest(".blk.folded");
    folded?.querySelector(".fold")?.click();
    document.getElementById(`c${id}`)?.closest("details")?.setAttribute("open", "");
    let tries = 25;
    const reach = () => {
      const element = document.getElementById(`c${id}`);
      if (!element) return;
      const field = element.matches("button") ? element : [...element.querySelectorAll(FIELDS)].find(shown);
      if (!field && --tries > 0) return setTimeout(reach, SETTLED_MS);
      element.scrollIntoView({ block: "center" });
      take(field ?? element.querySelector("button"));
    };
    setTimeout(reach, SETTLED_MS);
  };

  // From the title to the prompt, at once where it is shown: what is typed after Enter must not land in the title.
  window.rlvrToPrompt = () => {
    const prompt = [...document.querySelectorAll('[data-field="prompt"] textarea')].find(shown);
    prompt?.focus();
    return Boolean(prompt);
  };

  // Enter goes to the next line of a list. A line that was just begun has one as soon as the studio has heard of it.
  window.rlvrNextLine = (box) => {
    let tries = 25;
    const reach = () => {
      const next = box.closest("li")?.nextElementSibling?.querySelector(FIELDS);
      if (next) return next.focus();
      if (box.value && document.activeElement === box && --tries > 0) setTimeout(reach, SETTLED_MS);
    };
    reach();
  };

  // Put the cursor into what was just drawn, or into the first thing that fits the selector inside it.
  window.rlvrFocus = (id, inside) => setTimeout(() => {
    const element = document.getElementById(`c${id}`);
    take(inside ? element?.querySelector(inside) : element);
  }, SETTLED_MS);

  // A redraw takes the focused element away: find the one with the same name, and put the cursor where it was.
  let last = null;
  const note = () => {
    const element = document.activeElement;
    const name = element?.getAttribute?.("aria-label") ?? element?.title;
    if (!name || !element.closest(".ed")) return;
    last = { name, start: element.selectionStart, end: element.selectionEnd };
  };
  for (const kind of ["focusin", "keyup", "pointerup"]) document.addEventListener(kind, note, true);
  window.rlvrRefocus = () => {
    if (!last || (document.activeElement && document.activeElement !== document.body)) return;
    const same = (element) => element.getAttribute("aria-label") === last.name || element.title === last.name;
    const element = [...document.querySelectorAll(".ed [aria-label], .ed [title]")].find(
      (other) => same(other) && shown(other) && other.matches(`${FIELDS}, button`),
    );
    element?.focus({ preventScroll: true });
    if (typeof last.start === "number" && element?.setSelectionRange) element.setSelectionRange(last.start, last.end);
  };

  // A field with an error says so to those who hear the page.
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      if (!target.classList.contains("field")) continue;
      for (const box of target.querySelectorAll("input, textarea, .cm-content")) {
        target.classList.contains("bad") ? box.setAttribute("aria-invalid", "true") : box.removeAttribute("aria-invalid");
      }
    }
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["class"], subtree: true });

  // Arrow keys move in a menu, as they do in native ones.
  document.addEventListener("keydown", (event) => {
    const free = event.target === document.body || event.target.matches?.("button");
    const menu = event.target.closest?.(".q-menu") ?? (free ? [...document.querySelectorAll(".q-menu")].pop() : null);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !menu) return;
    const items = [...menu.querySelectorAll('[role^="menuitem"], .q-item[tabindex="0"]')].filter(
      (one) => one.getClientRects().length && one.getAttribute("aria-disabled") !== "true",
    );
    if (!items.length) return;
    event.preventDefault();
    const at = items.indexOf(document.activeElement);
    items[at < 0 ? (step > 0 ? 0 : items.length - 1) : (at + step + items.length) % items.length].focus();
  });

  // Left and right move among the tabs of a list and bring the one that is reached to the front.
  document.addEventListener("keydown", (event) => {
    const list = event.target.matches?.('.files [role="tab"]') && event.target.closest('[role="tablist"]');
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!list || !step) return;
    event.preventDefault();
    const tabs = [...list.querySelectorAll('[role="tab"]')];
    tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length].click();
  });

  // Files and folders dropped on an element with data-drop="<uploader>" are uploaded with their paths. A code editor
  // would put the text of a dropped file into itself, so the events are caught on their way down.
  const zoneOf = (event) =>
    [...(event.dataTransfer?.types ?? [])].includes("Files") && event.target.closest?.("[data-drop]");
  const mark = (zone, on) => zone.classList.toggle("over", on);
  document.addEventListener("dragover", (event) => {
    const zone = zoneOf(event);
    if (!zone) return;
    event.preventDefault();
    event.stopPropagation();
    event.dataTransfer.dropEffect = "copy";
    mark(zone, true);
  }, true);
  document.addEventListener("dragleave", (event) => {
    const zone = zoneOf(event);
    if (zone && !zone.contains(event.relatedTarget)) mark(zone, false);
  }, true);
  document.addEventListener("drop", (event) => {
    const zone = zoneOf(event);
    if (!zone) return;
    event.preventDefault();
    event.stopPropagation();
    mark(zone, false);
    const folder = event.target.closest("[data-folder]")?.dataset.folder ?? "";
    // Entries must be asked for now: the list is empty once this handler has returned.
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    const found = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
    Promise.all(found.map((entry) => walk(entry, folder && !folder.endsWith("/") ? `${folder}/` : folder)))
      .then((files) => runMethod(Number(zone.dataset.drop), "addFiles", [files.flat()]));
  }, true);

  const walk = async (entry, before) => {
    if (entry instanceof File) return [renamed(entry, before + entry.name)];
    if (entry.isFile) {
      const file = await new Promise((done, failed) => entry.file(done, failed));
      return [renamed(file, before + entry.name)];
    }
    const inside = [];
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((done, failed) => reader.readEntries(done, failed));
      if (!some.length) break;
      for (const one of some) inside.push(...(await walk(one, `${before}${entry.name}/`)));
    }
    return inside;
  };
  const renamed = (file, path) => new File([file], encodeURIComponent(path), { type: file.type });

  // What was typed in the last seconds before the studio stopped, or before the page was left, may not be saved: a
  // connection that is closed takes the last keys with it now and then. It is kept here, and handed over when the page
  // is drawn again. A connection that only broke brings the keys by itself.
  const KEPT = "rlvr-unsent";
  const YOUNG_MS = 15_000;
  const LAST_MS = 3000;
  const STALE_MS = 60_000;
  const typed = new Map();
  let leaving = false;
  // The text as it is now, for it may have been undone or replaced since; none once its box was drawn anew.
  const textOf = ({ box, code }) => {
    if (!box.isConnected) return null;
    return code ? getElement(code)?.editor?.state.doc.toString() : box.value;
  };
  const keep = (reloaded, young) => {
    const path = location.pathname;
    const entries = [...typed].filter(([, entry]) => entry.path === path && young(entry));
    const texts = entries.map(([key, entry]) => [key, textOf(entry)]).filter(([, text]) => typeof text === "string");
    const kept = { path, reloaded, at: Date.now(), fields: Object.fromEntries(texts) };
    if (texts.length) sessionStorage.setItem(KEPT, JSON.stringify(kept));
  };
  const keepUnsent = () => leaving || keep(false, ({ until }) => until > Date.now());
  document.addEventListener("input", (event) => {
    const box = event.target;
    const field = box.closest?.(".ed [data-field], header [data-field]");
    if (!field) return;
    const [at, code] = [Date.now(), box.closest(".nicegui-codemirror")];
    const until = window.socket?.connected ? at + YOUNG_MS : Infinity;
    const key = `${field.dataset.field}\n${box.getAttribute("aria-label") ?? ""}`;
    typed.set(key, { path: location.pathname, at, until, box, code });
    // A code editor reads its own text a moment after the browser tells of it.
    setTimeout(() => window.socket?.connected || keepUnsent(), 20);
  }, true);
  window.addEventListener("beforeunload", () => (leaving = true));
  window.addEventListener("pagehide", (event) => {
    if (event.persisted || !window.socket?.connected) return;
    const now = Date.now();
    const lost = sessionStorage.getItem(KEPT) !== null; // the connection has only just come back
    keep(!lost, ({ at, until }) => at > now - LAST_MS || (lost && until > now));
  });

  const watch = setInterval(() => {
    if (!window.socket) return;
    clearInterval(watch);
    window.socket.on("disconnect", keepUnsent);
    window.socket.on("connect", () => setTimeout(() => window.socket.connected && sessionStorage.removeItem(KEPT), 8000));
  }, 200);
  const left = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  if (left) {
    const waiting = setInterval(() => {
      const page = document.querySelector(".ed");
      if (!page || !window.did_handshake) return;
      clearInterval(waiting);
      sessionStorage.removeItem(KEPT);
      // Who comes back later than at once has not reloaded: the task may have been changed elsewhere since.
      const stale = left.reloaded && Date.now() - left.at > STALE_MS;
      for (const key of typed.keys()) delete left.fields[key]; // what was typed here since is newer
      if (left.path === location.pathname && !stale) page.dispatchEvent(new CustomEvent("unsent", { detail: left }));
    }, 200);
  }
})();
