// Success by task and step on a canvas. Rows are texts with a letter a column: "." not drawn, "e" nothing scored,
// "0" to "6" the mean, "a" to "g" the same with some errors, "~" nothing of any task was written.
const ROW = 15.5; // height of a row with its gap, in CSS pixels
const CELL = 13;

export default {
  template: `<div>
    <div class="heat">
      <ul ref="names"></ul>
      <div class="scr">
        <div ref="box" class="hm-svg" tabindex="0" role="application" @click="click" @mousemove="hover" @keydown="key">
          <canvas ref="canvas" aria-hidden="true"></canvas><div ref="ring" class="hm-ring" hidden></div>
        </div>
        <div ref="axis" class="hm-ax num" aria-hidden="true"></div>
      </div>
      <ul ref="latest" class="r"></ul>
    </div>
    <div ref="read" class="hm-read" role="status"></div>
  </div>`,
  mounted() {
    this.at = null;
    this.page = null;
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.$refs.box);
    this.themes = new MutationObserver(() => this.draw());
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.$emit("ready");
  },
  unmounted() {
    this.sizes.disconnect();
    this.themes.disconnect();
  },
  methods: {
    // ---- called from Python
    show(page) {
      this.page = page;
      this.at = null;
      this.$refs.ring.hidden = true;
      this.$refs.read.textContent = "";
      const item = (text, className) => {
        const li = document.createElement("li");
        const span = Object.assign(document.createElement("span"), { className, textContent: text, title: text });
        li.append(span);
        return li;
      };
      this.$refs.names.replaceChildren(...page.titles.map((title) => item(title, "ell")));
      this.$refs.latest.replaceChildren(...page.latest.map((text) => item(text, "num")));
      this.draw();
    },
    patch({ used, last, rows }) {
      Object.assign(this.page, { used, last });
      for (const [row, start, letters, latest] of rows) {
        const known = this.page.cells[row];
        this.page.cells[row] = known.slice(0, start) + letters + known.slice(start + letters.length);
        this.$refs.latest.children[row].firstChild.textContent = latest;
      }
      this.draw();
    },
    say([row, column], text) {
      if (this.at?.row === row && this.at.column === column) this.$refs.read.textContent = text;
    },
    // ---- drawing
    draw() {
      const { canvas, box } = this.$refs;
      const page = this.page;
      if (!page || !box?.clientWidth) return;
      const height = Math.max(1, page.cells.length * ROW);
      const scale = window.devicePixelRatio || 1;
      canvas.style.width = "100%";
      canvas.style.height = box.style.height = `${height}px`;
      canvas.width = Math.round(box.clientWidth * scale);
      canvas.height = Math.round(height * scale);
      const context = canvas.getContext("2d");
      context.scale(scale, scale);
      this.paint(context, box.clientWidth / page.shown);
      this.drawAxis();
      box.setAttribute(
        "aria-label",
        `Success by task and step: ${page.cells.length} tasks, steps ${page.first} to ${page.last}. Arrow keys move, Enter opens.`,
      );
    },
    paint(context, pitch) {
      const style = getComputedStyle(document.body);
      const token = (name) => style.getPropertyValue(`--${name}`).trim();
      const shades = Array.from({ length: 7 }, (_, level) => token(`h${level}`));
      const error = hatch(context, token("hatch-bg"), token("hatch"));
      const lost = hatch(context, token("bg-surface"), token("mute-line"));
      const width = pitch > 4 ? Math.max(1, pitch * 0.86) : pitch;
      this.page.cells.forEach((letters, row) => {
        for (let column = 0; column < letters.length; column++) {
          const letter = letters[column];
          if (letter === ".") continue;
          const partly = "abcdefg".indexOf(letter);
          context.fillStyle = letter === "e" ? error : letter === "~" ? lost : shades[partly < 0 ? +letter : partly];
          const [x, y] = [column * pitch, row * ROW];
          context.beginPath();
          context.roundRect(x, y, width, letter === "~" ? ROW : CELL, letter === "~" ? 0 : Math.min(2, width / 3));
          context.fill();
          if (partly < 0) continue;
          const side = Math.min(6, width);
          context.fillStyle = token("hatch");
          context.beginPath();
          context.moveTo(x + width - side, y);
          context.lineTo(x + width, y);
          context.lineTo(x + width, y + side);
          context.fill();
        }
      });
    },
    drawAxis() {
      const { first, width, shown } = this.page;
      const every = nice((shown * width) / 8);
      const marks = [];
      for (let step = Math.ceil(first / every) * every; step < first + shown * width; step += every) {
        const mark = Object.assign(document.createElement("i"), { textContent: step });
        mark.style.left = `${(((step - first) / width + 0.43) / shown) * 100}%`;
        marks.push(mark);
      }
      this.$refs.axis.replaceChildren(...marks);
    },
    // ---- pointer and keys
    cell(event) {
      const box = this.$refs.box.getBoundingClientRect();
      if (!this.page) return null;
      const row = Math.floor((event.clientY - box.top) / ROW);
      const column = Math.floor(((event.clientX - box.left) / box.width) * this.page.shown);
      return row >= 0 && row < this.page.cells.length && column >= 0 && column < this.page.shown ? { row, column } : null;
    },
    hover(event) {
      const cell = this.cell(event);
      if (cell) this.move(cell);
    },
    click(event) {
      const cell = this.cell(event);
      if (!cell) return;
      this.move(cell);
      this.open();
    },
    key(event) {
      const by = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], Home: [0, -1e9], End: [0, 1e9] }[event.key];
      const turn = { PageDown: 1, PageUp: -1 }[event.key];
      if (!by && !turn && event.key !== "Enter") return;
      event.preventDefault();
      if (turn) return this.$emit("turn", turn);
      if (event.key === "Enter") return this.open();
      if (!this.page?.cells.length) return;
      const from = this.at ?? { row: 0, column: this.page.used - 1 - by[1] };
      const inside = (value, end) => Math.max(0, Math.min(end - 1, value));
      this.move({
        row: this.at ? inside(from.row + by[0], this.page.cells.length) : 0,
        column: inside(from.column + by[1], this.page.used),
      });
    },
    move(cell) {
      if (this.at?.row === cell.row && this.at.column === cell.column) return;
      this.at = cell;
      const { ring, box } = this.$refs;
      const pitch = 100 / this.page.shown;
      ring.hidden = false;
      Object.assign(ring.style, {
        left: `${cell.column * pitch}%`,
        top: `${cell.row * ROW}px`,
        width: `max(3px, ${0.86 * pitch}%)`,
        height: `${CELL}px`,
      });
      box.style.cursor = this.isGroup() ? "pointer" : "default";
      clearTimeout(this.asking);
      this.asking = setTimeout(() => this.$emit("look", [cell.row, cell.column]), 60);
    },
    isGroup() {
      return !".~".includes(this.page.cells[this.at.row][this.at.column] ?? ".");
    },
    open() {
      if (this.at && this.isGroup()) this.$emit("open", [this.at.row, this.at.column]);
    },
  },
};

function hatch(context, background, line) {
  const tile = Object.assign(document.createElement("canvas"), { width: 6, height: 6 });
  const inside = tile.getContext("2d");
  inside.fillStyle = background;
  inside.fillRect(0, 0, 6, 6);
  inside.strokeStyle = line;
  inside.lineWidth = 2;
  inside.beginPath();
  for (const start of [-6, 0, 6]) {
    inside.moveTo(start, 6);
    inside.lineTo(start + 6, 0);
  }
  inside.stroke();
  return context.createPattern(tile, "repeat");
}

// The round number at or above: 1, 2, 5, 10, 20, …
function nice(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].find((factor) => factor * power >= least) * power;
}
