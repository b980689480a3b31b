// Cells of tables stay what they are when the page is drawn anew. NiceGUI makes a new component of every slot's template
// each time it renders, so any change anywhere on the page would replace all cells: an open menu of a row would close,
// and the focus be lost. Here one template is one component. It must run before Vue is there.
(() => {
  const made = new Map();
  const isSlot = (type) => typeof type?.template === "string" && Object.keys(type).every((key) => key === "props" || key === "template");
  let steady;
  Object.defineProperty(globalThis, "Vue", {
    configurable: true,
    get: () => steady,
    set: (vue) => {
      const h = (type, ...rest) => {
        if (!isSlot(type)) return vue.h(type, ...rest);
        if (!made.has(type.template)) made.set(type.template, type);
        return vue.h(made.get(type.template), ...rest);
      };
      steady = { ...vue, h };
    },
  });
})();
