// The one door to the service: the public API, as every other client has it.
import * as key from "./key.js";
import { Problem } from "./problem.js";
import { withRoot } from "./root_path.js";

const RETRY_MS = 1000; // chosen: between two tries to take up a stream

/** The JSON at a path; raises Problem. */
export async function get(path, { signal, query } = {}) {
  return (await answered(path + asked(query), { signal })).json();
}

/** What came of a request with a body: its status, headers and JSON. */
export async function send(method, path, body, { signal, headers = {} } = {}) {
  const response = await answered(path, {
    method,
    signal,
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : null };
}

/** The JSON that answers a file: encoding is gzip or zstd, where the file is compressed. */
export async function upload(path, file, { encoding, signal } = {}) {
  const headers = { "Content-Type": "application/json", ...(encoding ? { "Content-Encoding": encoding } : {}) };
  return (await answered(path, { method: "POST", signal, body: file, headers })).json();
}

/** All entries of a list, page by page: for await (const plan of pages("/v1/plans", "plans")). */
export async function* pages(path, noun, { signal, query } = {}) {
  let token = null;
  do {
    const page = await get(path, { signal, query: { ...query, page_token: token } });
    yield* page[noun];
    token = page.next_page_token;
  } while (token);
}

/**
 * Server-sent events {event, id, data}, taken up where they broke off until the stream has ended.
 * By fetch and not EventSource, which sends no Authorization header.
 */
export async function* events(path, { signal, last } = {}) {
  for (;;) {
    try {
      const response = await answered(path, {
        signal,
        headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) },
      });
      let ended = false;
      for await (const event of parsed(response.body)) {
        last = event.id ?? last;
        ended = event.event === "job";
        yield event;
      }
      if (ended) return;
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof Problem && error.status !== 0) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    if (signal?.aborted) return;
  }
}

/** Saves what a path answers as a file. */
export async function download(path, name, { signal } = {}) {
  save(await (await answered(path, { signal })).blob(), name);
}

/** Saves bytes that are here as a file. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function answered(path, { headers = {}, ...rest }) {
  for (;;) {
    const used = key.held();
    let response;
    try {
      response = await fetch(withRoot(path), { ...rest, headers: { ...headers, ...key.headers(used) } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw Problem.unreachable(error);
    }
    if (response.ok) return response;
    const problem = await Problem.of(response);
    if (response.status !== 401) throw problem;
    if (key.held() === used) await key.ask(problem.detail); // else another request has a new one by now
  }
}

async function* parsed(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value.replaceAll("\r\n", "\n");
    for (let end = held.indexOf("\n\n"); end >= 0; end = held.indexOf("\n\n")) {
      const event = one(held.slice(0, end));
      held = held.slice(end + 2);
      if (event) yield event;
    }
  }
}

function one(block) {
  const event = { event: "message", id: undefined, data: "" };
  for (const line of block.split("\n")) {
    const [, field, value] = /^(event|id|data): ?(.*)$/.exec(line) ?? [];
    if (field === "data") event.data += value;
    else if (field) event[field] = value;
  }
  return event.data ? { ...event, data: JSON.parse(event.data) } : null;
}

function asked(query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") given.append(name, one);
    }
  }
  const text = given.toString();
  return text && `?${text}`;
}
