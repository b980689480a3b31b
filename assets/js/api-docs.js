// The reference of the API in the theme of the studio: the side that was picked there, else that of the system.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    const picked = localStorage.getItem("rlvr-dark"); // kept by shell.js
    const dark = picked === null ? system.matches : picked === "true";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.documentElement.classList.toggle("dark-mode", dark); // what Swagger UI calls it
  };
  follow();
  system.addEventListener("change", follow);
  addEventListener("storage", follow);
})();
