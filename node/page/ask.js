// Asking the node: with a token if it wants one, and once more when it does not
// answer.

const KEY = "kvasir-token";
let asking = null; // the one dialog that is open

function wantToken() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("ask-token");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, document.getElementById("token").value);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

// The answer; one that asks for a token is not given up to the caller.
export async function ask(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = { ...options.headers };
    if (token) {
      headers.authorization = `Bearer ${token}`;
    }
    const answer = await fetch(path, { ...options, headers, cache: "no-store" });
    if (answer.status !== 401) {
      return answer;
    }
    await wantToken();
  }
}

// The body as JSON; throws what the node said was wrong.
export async function askJson(path, options) {
  const answer = await ask(path, options);
  const body = await answer.json();
  if (!answer.ok) {
    throw new Error(body.error?.message ?? `the node answered ${answer.status}`);
  }
  return body;
}

export function change(method, path) {
  return askJson(path, { method, headers: { "content-type": "application/json" } });
}

// What the node tells as server-sent events, until it ends. EventSource sends
// no token, so the lines are read here.
async function read(path, take) {
  const answer = await ask(path);
  if (!answer.ok) {
    throw new Error(`the node answered ${answer.status}`);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const text of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(text);
      take(name, JSON.parse(data));
    }
  }
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10000;

// For as long as the page is there. say(null): all is well.
export async function watch(path, take, say) {
  let wait = FIRST_WAIT_MS;
  for (;;) {
    try {
      await read(path, (name, data) => {
        wait = FIRST_WAIT_MS;
        say(null);
        take(name, data);
      });
      say("the node has ended the connection");
    } catch (error) {
      say(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
}
