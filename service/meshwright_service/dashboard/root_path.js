// The path under which a reverse proxy serves the service. Addresses in the dashboard's modules are without it.
const ROOT_PATH = document.documentElement.dataset.rootPath ?? "";

/** The URL of the service. */
export const SERVICE_URL = location.origin + ROOT_PATH;

/** An address of the dashboard or the API as the browser takes it; a query, a fragment or a blob as it is. */
export function withRoot(address) {
  return address.startsWith("/") ? ROOT_PATH + address : address;
}

/** The address of a page by the path of its URL; a path without the root, as of a request past the proxy, as it is. */
export function withoutRoot(pathname) {
  if (pathname === ROOT_PATH) return "/";
  return pathname.startsWith(`${ROOT_PATH}/`) ? pathname.slice(ROOT_PATH.length) : pathname;
}
