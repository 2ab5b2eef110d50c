// What the pages do with a script: copy buttons, keyboard shortcuts, the preview of a search, live numbers and states, and
// times that stay right. Without it everything can be done by links and forms.
"use strict";
(() => {
  const byID = id => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const texts = JSON.parse(document.body.dataset.texts);
  const tell = text => { byID("told").textContent = text; };

  // Icons of sites that have none leave no gap.
  for (const icon of all("img.site")) {
    icon.addEventListener("error", () => icon.remove());
    if (icon.complete && !icon.naturalWidth && icon.currentSrc) {
      icon.remove(); // it failed before the script ran
    }
  }

  // Copy buttons.
  for (const e of all("[data-copy]")) {
    const address = e.dataset.copy || e.href;
    const label = e.firstChild;
    if (e.href) {
      label.textContent = texts.Copy;
      e.setAttribute("role", "button");
      e.addEventListener("keydown", event => {
        if (event.key === " ") { // it presses buttons, and not links
          event.preventDefault();
          e.click();
        }
      });
    }
    e.hidden = false;
    e.addEventListener("click", async event => {
      if (!navigator.clipboard) {
        return; // the link leads to the feed
      }
      event.preventDefault();
      const before = label.textContent;
      try {
        await navigator.clipboard.writeText(address);
        label.textContent = texts.Copied;
        tell(texts.CopiedLong);
      } catch {
        label.textContent = texts.NotCopied;
        tell(texts.NoCopying);
      }
      setTimeout(() => { label.textContent = before; }, 2000);
    });
  }

  // A preview of the articles that match, while the user types a search.
  const query = byID("q"), preview = byID("preview");
  if (query && preview) {
    let asked = 0, timer = 0;
    const ask = async search => {
      const mine = ++asked;
      const answer = await fetch("/watch?part=1&" + search).catch(() => null);
      if (answer && answer.ok && mine === asked) {
        preview.innerHTML = await answer.text();
        if (!search.startsWith("q=")) {
          query.value = byID("built")?.value ?? "";
        }
      }
    };
    const soon = search => {
      clearTimeout(timer);
      timer = setTimeout(() => ask(search()), 250);
    };
    query.addEventListener("input", () => soon(() => "q=" + encodeURIComponent(query.value)));
    const builder = byID("builder");
    builder?.addEventListener("input", () => soon(() => new URLSearchParams(new FormData(builder)).toString()));
  }

  // A group of text fields grows when its last field is filled in.
  for (const group of all("[data-more]")) {
    group.addEventListener("input", () => {
      const last = group.lastElementChild;
      if (last.value) {
        const next = last.cloneNode();
        next.value = "";
        group.append(next);
      }
    });
  }

  // The way of the last items is drawn again, step by step, unless the user wants no motion.
  for (const button of all("[data-replay]")) {
    const drawing = document.querySelector(button.dataset.replay);
    button.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
    button.addEventListener("click", () => {
      drawing.classList.remove("play");
      drawing.getBoundingClientRect(); // otherwise the browser would not begin again
      drawing.classList.add("play");
      drawing.scrollIntoView({block: "center"});
    });
  }

  // One box selects all rows of the page.
  const boxes = all('input[type="checkbox"]:is([name="url"], [name="entry"])'), every = byID("all");
  if (every) {
    byID("all-label").hidden = false;
    every.addEventListener("change", () => boxes.forEach(box => { box.checked = every.checked; }));
  }

  // Keyboard shortcuts, which can be turned off because they can be in the way of assistive technology.
  const keys = byID("keys"), on = byID("keys-on"), help = byID("help");
  const stored = name => { try { return localStorage.getItem(name); } catch { return null; } };
  on.checked = stored("shortcuts") !== "off";
  on.addEventListener("change", () => { try { localStorage.setItem("shortcuts", on.checked ? "on" : "off"); } catch { /* not kept */ } });
  help.hidden = false;
  help.addEventListener("click", () => keys.showModal());
  const rows = () => all(".rows > li, .channels > li:not(:empty)");
  const current = () => rows().findIndex(row => row.contains(document.activeElement));
  const go = step => {
    const list = rows(), at = current();
    const next = list[at < 0 ? (step > 0 ? 0 : list.length - 1) : at + step];
    next?.querySelector("h3 a")?.focus();
  };
  const actions = {
    "/": () => byID("search")?.focus(),
    "j": () => go(1),
    "k": () => go(-1),
    "x": () => rows()[current()]?.querySelector('input[name="url"]')?.click(),
    "u": () => (rows()[current()] || (rows().length ? null : document))?.querySelector("[data-unsubscribe]")?.click(),
    "?": () => keys.showModal(),
  };
  document.addEventListener("keydown", event => {
    const typing = event.target.closest("textarea, select, dialog, input:not([type=checkbox])");
    if (typing || !on.checked || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(actions, event.key)) {
      return;
    }
    event.preventDefault();
    actions[event.key]();
  });

  // Times in words.
  const span = (seconds, kind) => {
    const unit = texts.Units.find(u => seconds < u.below);
    return unit[kind].replace("%d", Math.floor(seconds / unit.is));
  };
  const words = e => {
    const seconds = (Date.now() - Date.parse(e.dateTime)) / 1000;
    if ("for" in e.dataset) {
      return seconds < 1 ? texts.JustNow : span(seconds, "for");
    }
    return Math.abs(seconds) < 1 ? texts.Now : seconds < 0 ? span(-seconds, "in") : span(seconds, "ago");
  };
  const tick = () => all("time[datetime]").forEach(e => {
    const text = words(e);
    if (e.textContent !== text) {
      e.textContent = text;
    }
  });
  setInterval(tick, 10000);

  // fill leaves alone what is right, because a click on a link that is replaced meanwhile is lost.
  const fill = (e, html) => {
    const made = document.createElement("template");
    made.innerHTML = html;
    if (e.innerHTML !== made.innerHTML) {
      e.innerHTML = html;
    }
  };

  // Live numbers and states. A page that nobody sees closes its stream, because browsers open few connections to a host.
  const live = document.querySelector("[data-live]");
  if (live && window.EventSource) {
    let stream = null;
    const open = () => {
      stream = new EventSource(live.dataset.live); // it begins with all that may have changed since the page was made
      stream.addEventListener("number", event => {
        const number = JSON.parse(event.data), e = byID("n-" + number.id);
        if (e && e.textContent !== number.value) {
          e.textContent = number.value;
        }
      });
      stream.addEventListener("row", event => {
        const row = JSON.parse(event.data), e = byID(row.id);
        if (e) {
          e.classList.toggle("trouble", row.trouble);
          fill(e.querySelector(".facts"), row.html);
          const why = e.querySelector(".why");
          if (why) {
            fill(why, row.why);
          }
        }
      });
      stream.addEventListener("part", event => {
        const part = JSON.parse(event.data), e = byID(part.id);
        if (e) {
          const section = e.closest("section.attention"), hadFocus = e.contains(document.activeElement);
          fill(e, part.html);
          e.classList.toggle("trouble", part.trouble);
          if (section) {
            section.hidden = !section.querySelector("li:not(:empty)");
          }
          if (hadFocus) {
            e.querySelector("a")?.focus();
          }
        }
      });
      stream.addEventListener("reload", () => location.reload());
      stream.addEventListener("error", () => {
        stream?.close();
        stream = null;
        setTimeout(() => { if (!document.hidden && !stream) { open(); } }, 5000);
      });
    };
    const close = () => {
      stream?.close();
      stream = null;
    };
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        close();
      } else if (!stream) {
        open();
      }
    });
    window.addEventListener("pagehide", close);
    if (!document.hidden) {
      open();
    }
  }
})();
