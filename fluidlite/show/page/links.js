// From an op to the ops of other processes that its values go to, or come from. A piece of an exchange is
// [name on the server or -1, server].
const rolesWith = (kind) =>
  D.roles.map((one, index) => ({ one, index })).filter(({ one }) => one.kind === kind);
const MOST_LINKS = 12;

let exchangesKept = null;
function exchanges() {
  // "server name" -> the trainers' ops that exchange it, and "server" -> all that go there
  if (exchangesKept) return exchangesKept;
  const found = new Map(),
    add = (key, place) => {
      if (!found.has(key)) found.set(key, []);
      if (found.get(key).at(-1)?.item !== place.item || found.get(key).at(-1)?.index !== place.index)
        found.get(key).push(place);
    };
  for (const { one, index } of rolesWith("trainer"))
    for (const which of Object.keys(D.original))
      for (const item of flat(one[which]))
        for (const [name, server] of D.ops[item.id][PEERS]) {
          add(`${server} ${name < 0 ? "" : nameOf(name, one)}`, { one, index, which, item });
          add(String(server), { one, index, which, item });
        }
  return (exchangesKept = found);
}
const through = ({ one, index, which, item }) => {
  // a way to an op of another process, which then tells of itself
  const button = jump(item, one, which, index);
  button.classList.add("through");
  button.prepend(el("span", { className: "note" }, one.name));
  button.addEventListener("click", openSelected);
  return button;
};
const linkList = (title, places) =>
  places.length
    ? [
        el("h3", {}, title),
        ...places.slice(0, MOST_LINKS).map(through),
        places.length > MOST_LINKS
          ? el("p", { className: "note" }, `and ${places.length - MOST_LINKS} more`)
          : "",
      ]
    : [];

function onServer(server, names, which) {
  // the ops of a server's program that read or write variables of these names
  const { one, index } = rolesWith("pserver")[server],
    wanted = new Set(names);
  return flat(one[which])
    .filter(({ id }) => {
      const op = D.ops[id];
      return (
        op[CATEGORY] !== "comm" &&
        slotNames([...op[INPUTS], ...op[OUTPUTS]]).some((number) => wanted.has(nameOf(number, one)))
      );
    })
    .map((item) => ({ one, index, which, item }));
}
function fromTrainer(op, owner) {
  // to each server that the op speaks to, and to what that does with the values
  const servers = [...new Set(op[PEERS].map(([, server]) => server))].filter((server) =>
    serverOf.has(server),
  );
  return servers.flatMap((server) => {
    const names = op[PEERS].filter(([name, at]) => at === server && name >= 0).map(([name]) => name),
      places = onServer(
        server,
        names.map((name) => nameOf(name, owner)),
        state.which,
      );
    return [el("h3", {}, "On the server"), serverCell(server), ...places.slice(0, MOST_LINKS).map(through)];
  });
}
function fromServer(op, owner) {
  // to what trainers send and fetch of the op's variables; the op that listens has all of it
  const server = [...serverOf].find(([, one]) => one === owner)[0];
  if (op[CATEGORY] === "comm") {
    const all = exchanges().get(String(server)) ?? [],
      trainers = [...new Set(all.map(({ one }) => one))];
    return trainers.slice(0, 4).flatMap((one) =>
      linkList(
        `${one.name} sends and fetches`,
        all.filter((place) => place.one === one && place.which === "main"),
      ),
    );
  }
  const names = new Set(slotNames([...op[INPUTS], ...op[OUTPUTS]]).map((name) => nameOf(name, owner)));
  return linkList(
    "In the trainers' programs",
    [...names]
      .flatMap((name) => exchanges().get(`${server} ${name}`) ?? [])
      .filter(({ which }) => which === state.which),
  );
}
function elsewhere(item, op, owner) {
  // the part of an op's details that leads to other processes
  if (!isJob || owner === ORIGINAL) return [];
  if (op[PEERS].length) return fromTrainer(op, owner);
  if (owner.kind === "pserver") return fromServer(op, owner);
  if (op[CATEGORY] !== "collective") return [];
  const ranks = rolesWith("trainer").filter(
    ({ one }) => one !== owner && one[state.which] === owner[state.which],
  );
  return ranks.length
    ? [
        el("h3", {}, "The other ranks come to the same op"),
        ...ranks.slice(0, MOST_LINKS).map(({ one, index }) =>
          el(
            "button",
            {
              className: "server",
              onclick: () => {
                goTo(index, state.which, item.number);
                openSelected();
              },
            },
            one.name,
            el("span", { className: "note" }, one.endpoint),
          ),
        ),
      ]
    : [];
}
