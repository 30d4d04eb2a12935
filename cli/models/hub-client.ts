import { isLoopbackHost } from "../../src/base/loopback-host.ts";
import { CommandFailure, messageOf } from "../command.ts";

/** Where the hub is, and what lets us in. */
export interface HubAccess {
  /** Such as `https://huggingface.co`, without a slash at its end. */
  readonly endpointUrl: string;
  readonly token: string | undefined;
  /** How long a server may say nothing. */
  readonly silenceMsMax: number;
  /** The pause before the second attempt at what a network broke. */
  readonly retryDelayMs: number;
}

const ENDPOINT_DEFAULT = "https://huggingface.co";
const SILENCE_MS_MAX = 60_000;
const RETRY_DELAY_MS = 250;
const REDIRECTS_MAX = 8;

/** Reads where the hub is from the environment; throws for an address that must not see a token. */
export function hubAccessOf(environment: Readonly<Record<string, string | undefined>>): HubAccess {
  const { HF_ENDPOINT: endpoint = "", HF_TOKEN: token = "" } = environment;
  const endpointUrl = (endpoint === "" ? ENDPOINT_DEFAULT : endpoint).replace(/\/+$/, "");
  const url = URL.canParse(endpointUrl) ? new URL(endpointUrl) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new CommandFailure(`HF_ENDPOINT: expected an https URL, found "${endpointUrl}"`);
  }
  if (token !== "" && url.protocol === "http:" && !isLoopbackHost(hostOf(url))) {
    throw new CommandFailure(
      `HF_ENDPOINT: expected https, since HF_TOKEN would be readable on the way to ${url.host}`,
    );
  }
  if (token !== "" && !/^[\x21-\x7e]+$/.test(token)) {
    throw new CommandFailure("HF_TOKEN: expected printable ASCII characters without spaces");
  }
  return {
    endpointUrl,
    token: token === "" ? undefined : token,
    silenceMsMax: SILENCE_MS_MAX,
    retryDelayMs: RETRY_DELAY_MS,
  };
}

/** An answer of the hub; its body must be read or cancelled. */
export interface HubAnswer {
  readonly response: Response;
  /** To be called whenever something came, or the answer is given up. */
  readonly heard: () => void;
  /** Ends the waiting; the answer is over, or nobody wants it. */
  readonly release: () => void;
}

/**
 * Asks the hub for a path, and whoever it sends us to. The token goes to the hub's own origin alone:
 * files come from other hosts, which it is no business of.
 */
export async function askHub(
  access: HubAccess,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<HubAnswer> {
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      abort.abort(new Error(`nothing came for ${access.silenceMsMax} ms`));
    }, access.silenceMsMax);
  };
  const release = () => clearTimeout(timer);
  heard();
  try {
    const response = await follow(access, `${access.endpointUrl}${path}`, headers, abort.signal);
    return { response, heard, release };
  } catch (error) {
    release();
    throw error;
  }
}

async function follow(
  access: HubAccess,
  firstUrl: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Response> {
  const { origin } = new URL(access.endpointUrl);
  let url = new URL(firstUrl);
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    const isHub = url.origin === origin;
    const response = await fetch(url, {
      // Compressed, a length would not be that of the file.
      headers: {
        ...headers,
        "accept-encoding": "identity",
        "user-agent": "sluice",
        ...(isHub && access.token !== undefined && { authorization: `Bearer ${access.token}` }),
      },
      redirect: "manual",
      signal,
    });
    const location = response.headers.get("location");
    if (response.status < 300 || response.status >= 400 || location === null) return response;
    await response.body?.cancel();
    const next = new URL(location, url);
    if (
      !/^https?:$/.test(next.protocol) ||
      (url.protocol === "https:" && next.protocol === "http:")
    ) {
      throw new CommandFailure(
        `The hub sends us to ${next.protocol}//${next.host}, which is not safe`,
      );
    }
    url = next;
  }
  throw new CommandFailure(`The hub sends us on more than ${REDIRECTS_MAX} times`);
}

/** What an answer other than a success means for whoever wants this model; undefined if trying again may help. */
export function refusalOf(
  { status }: Response,
  access: HubAccess,
  repository: string,
): CommandFailure | undefined {
  const page = `${access.endpointUrl}/${repository}`;
  if (status === 401 || status === 403) {
    const token =
      access.token === undefined ? "HF_TOKEN is not set" : "HF_TOKEN does not let us in";
    return new CommandFailure(
      `${repository} does not exist or needs permission (${status}), and ${token}; ask for access at ${page}`,
    );
  }
  if (status === 404) {
    return new CommandFailure(`${page} has no such model, revision or file (404)`);
  }
  if (status === 408 || status === 429 || status >= 500) return undefined;
  return new CommandFailure(`${access.endpointUrl} answered ${status} for ${repository}`);
}

/** A fault in words for people: what fetch throws hides its cause. */
export function causeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error ? cause.message : messageOf(error);
}

const hostOf = (url: URL) => url.hostname.replaceAll(/[[\]]/g, "");
