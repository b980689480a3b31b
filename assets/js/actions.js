// What can be done on this page, for the command palette: every button and link of the top bar, of the bars and of the
// cards' headers, by its name and key; buttons that are off are told with the reason. rlvrAct(n) presses one told last.
(() => {
  const PLACES = "header, .bulk, .filters, .stat, .rh, .main .hd, .main .go, .main .act, .main .sealbar, .start, .nothing, .empty, [data-actions]";
  const LEAVE_OUT = '[data-key="mod+k"], .crumb *, .pill *, .seg *, tbody *, .q-menu *, li *, .in';
  let told = [];

  const name = (button) => {
    const text = button.getAttribute("aria-label") || button.querySelector(".cap")?.textContent.trim()
      || (button.matches("a") && button.querySelector("span")?.textContent.trim()) || "";
    const part = button.closest("section[aria-label]")?.getAttribute("aria-label");
    return button.closest("header, .bulk") || !part ? text : `${text} · ${part}`;
  };

  window.rlvrActions = () => {
    told = [];
    // What is picked comes first: the palette was opened to do something with it.
    const all = document.querySelectorAll("button.btn, a.btn, header a, .rh a");
    for (const button of [...document.querySelectorAll(".bulk button.btn"), ...all]) {
      const hidden = !button.getClientRects().length || button.closest("[inert], .q-dialog__inner");
      if (hidden || button.matches(LEAVE_OUT) || !(button.matches(".sr") || button.closest(PLACES))) continue;
      const text = name(button);
      const known = told.find((one) => one.text === text);
      if (known) known.key ||= button.dataset.key ?? ""; // what is drawn twice has its key at one of them
      if (!text || known) continue;
      told.push({ button, text, key: button.dataset.key ?? "" });
    }
    return told.map(({ button, text, key }) => ({
      text,
      key,
      icon: button.querySelector("use")?.getAttribute("href")?.split("#")[1] ?? "",
      off: button.disabled ? button.title || "Not now" : "",
    }));
  };

  window.rlvrAct = (number) => {
    const button = told[number]?.button;
    if (!button?.isConnected || button.disabled) return;
    if (!button.matches(".sr")) button.focus();
    button.click();
  };
})();
