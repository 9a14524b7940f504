// Asks for what the address shows first while the pages' own script is still on its way: `ask` in lib.svelte.js takes
// what is here instead of asking itself. The addresses are those that the screens put together; the test of the pages says
// when they are others.
(() => {
  const ahead = (window.ahead = new Map());
  ahead.begun = performance.now();
  const put = (address) => ahead.set(address, fetch(address));
  const [screen, raw = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const query = new Map(raw.split("&").map((pair) => [pair.split("=", 1)[0], pair.slice(pair.indexOf("=") + 1)]));
  const given = (name) => (query.get(name) ? [`${name}=${query.get(name)}`] : []);
  const number = (name) => [`${name}=${+(query.get(name) ?? 0)}`];
  put("/api/overview");
  if (screen === "tree") put(`/api/tree?${[...number("store"), ...given("commit"), ...given("path"), ...number("offset"), "limit=100"].join("&")}`);
  // What nobody has taken by then is old.
  setTimeout(() => ahead.clear(), 5000);
})();
