// A stream of server-sent events that says whether it is alive, and comes back by itself.
//
// The server speaks every two seconds at least. Silence for longer means that what is shown may be old: the page is told,
// with the time of the last word, and the connection is made anew, with what was heard last (EventSource's own id).
const SILENCE = 7000;
const RETRY = [500, 1000, 2000, 4000];

export class Stream {
  constructor(url, handlers, onLink) {
    this.url = url;
    this.handlers = handlers;
    this.onLink = onLink;
    this.tries = 0;
    this.heard = null;
    this.connect();
    setInterval(() => this.check(), 1000);
    addEventListener("online", () => this.again());
    document.addEventListener("visibilitychange", () => !document.hidden && this.check());
  }

  connect() {
    this.retry = null;
    this.source = new EventSource(this.url);
    this.opened = Date.now();
    for (const [name, handler] of Object.entries(this.handlers)) {
      this.source.addEventListener(name, (event) => this.hear(handler, event));
    }
    this.source.onerror = () => this.lose();
  }

  hear(handler, event) {
    const data = JSON.parse(event.data);
    this.heard = Date.now();
    this.tries = 0;
    this.skew = data.now ? data.now * 1000 - this.heard : this.skew || 0;
    handler(data);
    this.onLink(true, this.heard);
  }

  lose() {
    this.onLink(false, this.heard);
    if (this.source.readyState === EventSource.CLOSED) this.again();
  }

  check() {
    const last = Math.max(this.heard || 0, this.opened);
    if (Date.now() - last > SILENCE) {
      this.onLink(false, this.heard);
      this.again();
    }
  }

  again() {
    if (this.retry) return;
    this.source.close();
    const wait = RETRY[Math.min(this.tries, RETRY.length - 1)];
    this.tries += 1;
    this.retry = setTimeout(() => this.connect(), wait);
  }

  // The server's clock, in seconds.
  now() {
    return (Date.now() + (this.skew || 0)) / 1000;
  }
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

// Shows the state of the connection: a word in the header, and a banner while it is lost.
export function linkShower(link, banner) {
  let shown = null;
  return (alive, heard) => {
    const text = alive ? "live" : heard ? "connection lost, trying again; shown as of " + clock(heard) : "not connected, trying";
    if (text === shown) return;
    shown = text;
    link.textContent = alive ? "live" : "connection lost";
    link.className = "link " + (alive ? "live" : "lost");
    banner.hidden = alive;
    banner.textContent = alive ? "" : text[0].toUpperCase() + text.slice(1) + ".";
    document.body.classList.toggle("lost-connection", !alive);
  };
}
