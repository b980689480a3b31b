// What the page of a run does in the browser beside its charts. Everything is put in as text, never as markup.

// The chart library takes longer to load than the rest of the page: begin before the page is there to ask for it.
if (/^\/runs(\/|$)/.test(location.pathname)) import("nicegui-plotly").catch(() => {}); // the chart itself says what failed

// Append to a log; it follows only while it is scrolled to its end.
window.rlvrLog = (id, most, text) => {
  const log = getHtmlElement(id);
  if (!log) return;
  const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  log.append(document.createTextNode(text));
  let length = log.textContent.length;
  while (log.childNodes.length > 1 && length > most) {
    length -= log.firstChild.length;
    log.firstChild.remove();
  }
  if (follows) log.scrollTop = log.scrollHeight;
};

// Put events on top of a list, each [clock, date and time, text, class].
window.rlvrEvents = (id, most, lines) => {
  const list = getHtmlElement(id);
  if (!list) return;
  for (const [at, title, text, kind] of lines) {
    const line = Object.assign(document.createElement("li"), { title });
    for (const [className, textContent] of [["s num", at], [kind, text]])
      line.append(Object.assign(document.createElement("span"), { className, textContent }));
    list.prepend(line);
  }
  while (list.childElementCount > most) list.lastElementChild.remove();
};
