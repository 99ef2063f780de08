// Where a value stands in the body of a request: found and put there by its JSON pointer.

/** What stands at a pointer; undefined where nothing does. */
export function at(body, pointer) {
  return parts(pointer).reduce((own, name) => own?.[name], body);
}

/** Puts a value there; undefined takes it away, and what is then empty within a part of the body. */
export function put(body, pointer, value) {
  const names = parts(pointer);
  const last = names.pop();
  if (value === undefined) return take(body, names, last);
  const above = names.reduce((own, name) => (own[name] ??= {}), body);
  above[last] = value;
}

function take(body, names, last) {
  const above = names.reduce((own, name) => own?.[name], body);
  if (above) delete above[last];
  if (above && names.length > 1 && !Object.keys(above).length) take(body, names.slice(0, -1), names.at(-1));
}

function parts(pointer) {
  return pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}
